// Units are identified by their position in the layer's lists; units.number has their numbers in the model.
const layers = content.layers;
const grid = byId("grid");
const panel = byId("unit");
let shown; // the number of the layer that is shown, from 0
let layer, units, count, measureOf, gridTiles, order;
let chosen = null;

function addTileStyle(name, sheet, parts = 1) {
  const rule = `.${name} { background-image: url(${sheet.url}); background-size: ${sheet.columns * 100 * parts}% ${sheet.rows * 100 * parts}%; }`;
  document.head.append(element("style", {}, rule));
}

function positionAt(column, columns, row, rows) {
  const part = (k, n) => (n > 1 ? (100 * k) / (n - 1) : 0);
  return `background-position: ${part(column, columns)}% ${part(row, rows)}%`;
}

function positionOf(sheet, number) {
  const column = number % sheet.columns;
  return positionAt(column, sheet.columns, (number - column) / sheet.columns, sheet.rows);
}

const nameOf = (unit, of = layer) => `unit ${of.units.number[unit]}`;

function unitTile(unit, name = "button", number = shown) {
  const of = layers[number];
  const label = number === shown ? nameOf(unit) : `${nameOf(unit, of)} of layer ${number + 1}`;
  return element(name, {
    className: `tile of-unit units-${number}${of.kind === "parts" ? " mosaic" : ""}`,
    style: `${positionOf(of.tiles, unit)}; --across: ${of.across ?? 1}`, title: label, "aria-label": label, role: name === "div" ? "img" : "button",
  });
}

// The grid has one tile for each unit, created once per layer; sorting moves tiles and filtering hides them.
const newGridTiles = () => units.number.map((_, unit) => {
  const tile = unitTile(unit);
  tile.type = "button";
  tile.tabIndex = -1;
  tile.setAttribute("role", "option");
  tile.setAttribute("aria-selected", "false");
  tile.addEventListener("click", () => choose(unit));
  tile.dataset.unit = unit;
  return tile;
});

function showLayer(number) {
  if (number === shown) return;
  if (chosen !== null) close();
  shown = number;
  layer = layers[number];
  units = layer.units;
  count = units.number.length;
  measureOf = Object.fromEntries(layer.measures.map((measure) => [measure.key, measure]));
  gridTiles = newGridTiles();
  grid.classList.toggle("mosaics", layer.kind === "parts");
  grid.classList.toggle("bars", layer.kind === "vectors");
  byId("summary").replaceChildren(...layer.summary.map((text) => element("span", {}, text)));
  showFacts(layer.facts);
  byId("charts").replaceChildren(...layer.charts.map(({ title, explanation, svg }) => {
    const figure = element("figure");
    figure.innerHTML = svg;
    figure.append(element("figcaption", {}, element("b", {}, title), explanation));
    return figure;
  }));
  byId("intro").textContent = layer.intro ?? "";
  byId("intro").hidden = !layer.intro;
  for (const id of ["sort", "measure"]) {
    const before = byId(id).value;
    byId(id).replaceChildren(...layer.measures.map(({ key, name }) => element("option", { value: key }, name)));
    byId(id).value = before in measureOf ? before : "number";
  }
  for (const [k, tab] of [...byId("layers").children].entries()) {
    tab.setAttribute("aria-selected", String(k === number));
    tab.tabIndex = k === number ? 0 : -1;
  }
  arrange();
}

function addLayerTabs() {
  const tabs = layers.map((of, number) => {
    const tab = element("button", { type: "button", role: "tab", "aria-controls": "layer" }, element("b", {}, `Layer ${number + 1}`), element("span", {}, of.about));
    tab.addEventListener("click", () => { showLayer(number); showInAddress(`#layer-${number + 1}`); chooseFirst(); });
    tab.addEventListener("keydown", (event) => {
      const next = { ArrowLeft: number - 1, ArrowRight: number + 1, Home: 0, End: layers.length - 1 }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      const other = byId("layers").children[Math.max(0, Math.min(layers.length - 1, next))];
      other.click();
      other.focus();
    });
    return tab;
  });
  byId("layers").append(...tabs);
  byId("layers").hidden = false;
  byId("layer").setAttribute("role", "tabpanel");
}

function arrange() {
  const key = byId("sort").value;
  const sign = byId("descending").checked ? -1 : 1;
  order = units.number.map((_, unit) => unit).sort((a, b) => sign * (units[key][a] - units[key][b]) || a - b);
  const filtered = byId("measure").value;
  const sorted = units[filtered].slice().sort((a, b) => a - b);
  const at = (percent) => sorted[Math.round((percent / 100) * (count - 1))];
  const low = at(Math.min(byId("from").value, byId("to").value));
  const high = at(Math.max(byId("from").value, byId("to").value));
  order = order.filter((unit) => units[filtered][unit] >= low && units[filtered][unit] <= high);
  for (const unit of order) {
    const label = key === "number" ? nameOf(unit) : `${nameOf(unit)}, ${measureOf[key].name} ${told(key, units[key][unit])}`;
    gridTiles[unit].title = label;
    gridTiles[unit].setAttribute("aria-label", label);
  }
  grid.replaceChildren(...order.map((unit) => gridTiles[unit]));
  for (const id of ["from", "to"]) {
    byId(id).setAttribute("aria-valuetext", `${measureOf[filtered].name} ${told(filtered, at(byId(id).value))}`);
  }
  byId("kept").textContent = order.length === count ? `all ${count} units` : `${order.length} of ${count} units: ${measureOf[filtered].name} ${told(filtered, low)} to ${told(filtered, high)}`;
  byId("explanation").textContent = `Sorted by ${measureOf[key].name}: ${measureOf[key].explanation}.`;
  markFocusable();
}

function markFocusable() {
  const current = order.includes(chosen) ? chosen : order[0];
  for (const unit of order) gridTiles[unit].tabIndex = unit === current ? 0 : -1;
}

// A value of a measure with its unit.
function told(key, value) {
  const { unit } = measureOf[key];
  return unit === "%" ? `${Number((100 * value).toPrecision(2))} %` : `${short(value)}${unit}`;
}

const short = (value) => (Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(3))));

// cameFrom: the layer and the unit that this one feeds, to go back to. If the page itself chooses, it does not scroll.
function choose(unit, cameFrom = null, byItself = false) {
  if (chosen !== null) gridTiles[chosen].setAttribute("aria-selected", "false");
  chosen = unit;
  gridTiles[unit].setAttribute("aria-selected", "true");
  markFocusable();
  document.body.classList.add("choosing");
  panel.hidden = false;
  panel.scrollTop = 0;
  byId("status").textContent = `${nameOf(unit)} chosen`;
  if (!byItself) {
    gridTiles[unit].scrollIntoView({ block: "nearest" });
    showInAddress(addressOf(unit));
  }
  const closing = element("button", { className: "close", type: "button", "aria-label": "close" }, "\u00d7");
  closing.addEventListener("click", leave);
  const rows = layer.measures.slice(1).map(({ key, name, explanation }) => element("tr", {}, element("td", {}, element("b", {}, name), element("span", {}, explanation)), element("td", {}, told(key, units[key][unit]))));
  const silent = layer.never_active.includes(unit) ? element("p", {}, `This unit is never active: it hardly responds to any of the ${layer.samples}.`) : null;
  const head = element("div", { className: "head" }, unitTile(unit, "div"), element("div", { className: "figures" }, closing, element("h2", {}, titleOf(unit)), element("p", { className: "explanation" }, summaryOf(unit)), silent));
  panel.replaceChildren(
    ...(cameFrom ? [wayBack(...cameFrom)] : []), head,
    ...(layer.kind === "vectors" ? topSamples(unit) : topPatches(unit)),
    ...(layer.kind === "parts" ? feeds(unit) : []),
    ...section("Figures", element("table", { className: "measures" }, ...rows)),
    ...section(`How strongly it responds to ${layer.samples} (largest output ${short(units.largest[unit])})`, histogram(unit)),
    ...section("Most similar units (cosine)", neighbors(layer.nearest[unit])),
    ...section("Units that respond together with it (correlation)", neighbors(layer.together[unit])),
  );
}

// At the start, the clearest filter is chosen, or else the unit that wins most often; none on a small screen, where the
// panel would cover the units.
function chooseFirst() {
  const best = units.clarity ?? units.wins;
  const first = order.reduce((found, unit) => (best[unit] > best[found] ? unit : found), order[0]);
  if (chosen === null && matchMedia("(min-width: 821px)").matches) choose(first, null, true);
}

const summaryOf = (unit) => `It responds to ${told("often", units.often[unit])} of the ${layer.samples}, and more strongly than all other units to ${units.wins[unit].toLocaleString("en")} of them.`;
const titleOf = (unit) => `Unit ${units.number[unit]}${layers.length > 1 ? ` of layer ${shown + 1}` : ""}`;
const addressOf = (unit) => `#${layers.length > 1 ? `layer-${shown + 1}-` : ""}unit-${units.number[unit]}`;

function wayBack(number, unit) {
  const back = element("button", { type: "button", className: "back" }, `\u2190 back to ${nameOf(unit, layers[number])} of layer ${number + 1}`);
  back.addEventListener("click", () => goTo(number, unit));
  return back;
}

function goTo(number, unit, cameFrom = null) {
  showLayer(number);
  choose(unit, cameFrom);
  panel.querySelector(".close").focus();
}

function close() {
  panel.hidden = true;
  document.body.classList.remove("choosing");
  gridTiles[chosen].setAttribute("aria-selected", "false");
  chosen = null;
}

function leave() {
  if (chosen === null) return;
  const next = order.includes(chosen) ? gridTiles[chosen] : byId("sort"); // it may have been filtered out
  close();
  next.focus();
  showInAddress(layers.length > 1 ? `#layer-${shown + 1}` : "");
}

// Frames without their own address, as in some previews, do not allow changing it.
function showInAddress(hash) {
  try {
    history.replaceState(null, "", location.pathname + location.search + hash);
  } catch {
    /* the page works without */
  }
}

const section = (title, ...children) => [element("h3", {}, title), ...children];

function strip(figures) {
  return element("div", { className: "strip" }, ...figures);
}

function topPatches(unit) {
  const where = element("div", { className: "where" });
  const caption = element("p", { className: "explanation" });
  const figures = layer.top[unit].map(({ tile, place, answer }, rank) => {
    const patch = element("button", {
      className: `tile patch patches-${shown}`, type: "button", title: content.images[place[0]].name,
      style: layer.kind === "parts" ? positionOfPart(unit, rank) : positionOf(layer.patches, tile),
      "aria-label": `patch of ${content.images[place[0]].name}, row ${place[1]}, column ${place[2]}, output ${short(answer)}`,
    });
    const show = () => showPlace(where, caption, place);
    for (const event of ["click", "focus", "mouseenter"]) patch.addEventListener(event, show);
    return element("figure", {}, patch, element("figcaption", {}, short(answer)));
  });
  showPlace(where, caption, layer.top[unit][0].place);
  const patches = strip(figures);
  if (layer.kind === "parts") patches.classList.add("parts");
  return section("What excites it most, and where", patches, caption, where);
}

// The parts of a unit are side by side in its tile.
function positionOfPart(unit, rank) {
  const { columns, rows } = layer.tiles;
  const [column, row] = [unit % columns, Math.floor(unit / columns)];
  const across = layer.across;
  return positionAt(column * across + (rank % across), columns * across, row * across + Math.floor(rank / across), rows * across);
}

function feeds(unit) {
  const below = layer.below;
  const figures = layer.feeds[unit].map((input) => {
    const sign = input.sign > 0 ? "+" : input.sign < 0 ? "\u2212" : "\u00b1";
    return element("figure", {}, element("div", { className: "input" }, inputTile(below, input.channel, unit), weightMap(input)), element("figcaption", {}, `${sign} ${Math.round(100 * input.share)} %`));
  });
  const what = below === null ? "Channels of the image" : `Units of layer ${below + 1}`;
  const text = `Beside each are its weights at the ${layer.patch} x ${layer.patch} places that the unit sees: orange where it excites the unit, blue where it inhibits it. Below are the sign of the sum of its weights, and its share in the squares of all weights.`;
  return section(`${what} that feed it most`, strip(figures), element("p", { className: "explanation" }, text));
}

function inputTile(below, channel, unit) {
  if (below === null) return element("span", { className: "tile absent" }, `channel ${channel}`);
  const of = layers[below];
  // Encoders that split signs have a second code for each filter, of its mirrored form.
  const mirrored = of.kind === "images" && channel >= of.units.number.length;
  const place = of.units.number.indexOf(mirrored ? channel - of.units.number.length : channel);
  if (place < 0) return element("span", { className: "tile absent", title: "not among the units that are shown" }, `unit ${channel}`);
  const tile = unitTile(place, "button", below);
  tile.type = "button";
  tile.classList.toggle("mirrored", mirrored);
  const here = [shown, unit];
  tile.addEventListener("click", () => goTo(below, place, here));
  return tile;
}

function weightMap({ weights }) {
  const size = layer.patch;
  const cells = weights.map((value, k) => `<rect x="${k % size}" y="${Math.floor(k / size)}" width="1" height="1" class="${value < 0 ? "minus" : "plus"}" fill-opacity="${Math.abs(value) / 100}"><title>${value / 100}</title></rect>`);
  const holder = element("div", { className: "weights" });
  holder.innerHTML = `<svg viewBox="0 0 ${size} ${size}" role="img" aria-label="weights at ${size} x ${size} places">${cells.join("")}</svg>`;
  return holder;
}

function showPlace(where, caption, [number, top, left]) {
  const image = content.images[number];
  const size = layer.size;
  const percent = (value, whole) => `${(100 * value) / whole}%`;
  const frame = element("span", {
    style: `left: ${percent(left, image.width)}; top: ${percent(top, image.height)}; width: ${percent(size, image.width)}; height: ${percent(size, image.height)}`,
  });
  where.replaceChildren(element("img", { src: image.url, alt: image.name }), frame);
  caption.textContent = `${image.name}, row ${top}, column ${left}`;
}

function topSamples(unit) {
  const rows = (pairs) => element("table", {}, ...pairs.map(([name, value]) => element("tr", {}, element("td", {}, name), element("td", {}, short(value)))));
  return [
    ...section("Features with the largest weights", rows(layer.features[unit])),
    ...section("Samples that excite it most (row, output)", rows(layer.top[unit].map(({ sample, answer }) => [`row ${sample}`, answer]))),
  ];
}

function histogram(unit) {
  const counts = layer.histogram[unit];
  // Logarithmic: most responses are near zero, but the few strong ones are of interest.
  const height = (value) => (50 * Math.log1p(value)) / Math.log1p(Math.max(...counts));
  const bars = counts.map((value, k) => `<rect x="${k * 15}" y="${50 - height(value)}" width="13" height="${height(value)}"><title>${value}</title></rect>`);
  const holder = element("div");
  holder.innerHTML = `<svg viewBox="0 0 300 62" role="img" aria-label="numbers of ${layer.samples} by strength of the output">${bars.join("")}<text x="0" y="60">0</text><text x="300" y="60" text-anchor="end">largest (counts by logarithm)</text></svg>`;
  return holder;
}

function neighbors(pairs) {
  return strip(pairs.map(([unit, similarity]) => {
    const tile = unitTile(unit);
    tile.type = "button";
    tile.addEventListener("click", () => { choose(unit); panel.querySelector(".close").focus(); });
    return element("figure", {}, tile, element("figcaption", {}, similarity.toFixed(2)));
  }));
}

function columns() {
  return getComputedStyle(grid).gridTemplateColumns.split(" ").length;
}

grid.addEventListener("keydown", (event) => {
  const here = order.indexOf(Number(event.target.dataset.unit));
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns(), ArrowDown: columns(), Home: -here, End: order.length - 1 - here };
  if (!(event.key in steps)) return;
  event.preventDefault();
  const unit = order[Math.max(0, Math.min(order.length - 1, here + steps[event.key]))];
  choose(unit);
  gridTiles[unit].focus();
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") leave();
});

for (const [number, of] of layers.entries()) {
  addTileStyle(`units-${number}`, of.tiles);
  if (of.kind === "images") addTileStyle(`patches-${number}`, of.patches);
  if (of.kind === "parts") addTileStyle(`patches-${number}`, of.tiles, of.across);
}
byId("sort").addEventListener("change", () => {
  byId("descending").checked = !["number", "orientation", "group"].includes(byId("sort").value);
  arrange();
});
for (const id of ["descending", "measure", "from", "to"]) byId(id).addEventListener("input", arrange);
byId("all").addEventListener("click", () => {
  byId("from").value = 0;
  byId("to").value = 100;
  arrange();
});
if (layers.length > 1) addLayerTabs();
showLayer(0);
function followAddress() {
  const [, ofLayer, ofUnit] = /^#(?:layer-(\d+))?-?(?:unit-(\d+))?$/.exec(location.hash) ?? [];
  const number = ofLayer === undefined ? 0 : Number(ofLayer) - 1;
  if ((ofLayer ?? ofUnit) === undefined || !(number in layers)) return;
  showLayer(number);
  const unit = units.number.indexOf(Number(ofUnit ?? -1));
  if (unit >= 0) choose(unit);
}
addEventListener("hashchange", followAddress);
followAddress();
chooseFirst();
