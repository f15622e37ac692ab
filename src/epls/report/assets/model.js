const { units, tiles } = content;
const count = units.number.length;
const measures = content.measures;
const measureOf = Object.fromEntries(measures.map((measure) => [measure.key, measure]));
const grid = byId("grid");
const panel = byId("unit");
let order = units.number.slice();
let chosen = null;

function addTileStyle(name, sheet) {
  const rule = `.${name} { background-image: url(${sheet.url}); background-size: ${sheet.columns * 100}% ${sheet.rows * 100}%; }`;
  document.head.append(element("style", {}, rule));
}

function positionOf(sheet, number) {
  const part = (k, n) => (n > 1 ? (100 * k) / (n - 1) : 0);
  const column = number % sheet.columns;
  return `background-position: ${part(column, sheet.columns)}% ${part((number - column) / sheet.columns, sheet.rows)}%`;
}

function unitTile(unit, name = "button") {
  const label = `unit ${unit}`;
  return element(name, {
    className: "tile of-unit", style: positionOf(tiles, unit), title: label, "aria-label": label, role: name === "div" ? "img" : "button",
  });
}

// The grid has one tile for each unit, made once; sorting moves them and filtering hides them.
const gridTiles = units.number.map((unit) => {
  const tile = unitTile(unit);
  tile.type = "button";
  tile.tabIndex = -1;
  tile.setAttribute("role", "option");
  tile.setAttribute("aria-selected", "false");
  tile.addEventListener("click", () => choose(unit));
  tile.dataset.unit = unit;
  return tile;
});

function arrange() {
  const key = byId("sort").value;
  const sign = byId("descending").checked ? -1 : 1;
  order = units.number.slice().sort((a, b) => sign * (units[key][a] - units[key][b]) || a - b);
  const filtered = byId("measure").value;
  const sorted = units[filtered].slice().sort((a, b) => a - b);
  const at = (percent) => sorted[Math.round((percent / 100) * (count - 1))];
  const low = at(Math.min(byId("from").value, byId("to").value));
  const high = at(Math.max(byId("from").value, byId("to").value));
  order = order.filter((unit) => units[filtered][unit] >= low && units[filtered][unit] <= high);
  for (const unit of order) {
    const label = key === "number" ? `unit ${unit}` : `unit ${unit}, ${measureOf[key].name} ${short(units[key][unit])}`;
    gridTiles[unit].title = label;
    gridTiles[unit].setAttribute("aria-label", label);
  }
  grid.replaceChildren(...order.map((unit) => gridTiles[unit]));
  for (const id of ["from", "to"]) {
    byId(id).setAttribute("aria-valuetext", `${measureOf[filtered].name} ${short(at(byId(id).value))}`);
  }
  byId("kept").textContent = `${order.length} of ${count} units: ${measureOf[filtered].name} ${short(low)} to ${short(high)}`;
  byId("explanation").textContent = `${measureOf[key].name}: ${measureOf[key].explanation}.`;
  markFocusable();
}

function markFocusable() {
  const current = order.includes(chosen) ? chosen : order[0];
  for (const unit of order) gridTiles[unit].tabIndex = unit === current ? 0 : -1;
}

const short = (value) => (Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(3))));

function choose(unit) {
  if (chosen !== null) gridTiles[chosen].setAttribute("aria-selected", "false");
  chosen = unit;
  gridTiles[unit].setAttribute("aria-selected", "true");
  markFocusable();
  document.body.classList.add("choosing");
  panel.hidden = false;
  panel.scrollTop = 0;
  byId("status").textContent = `unit ${unit} chosen`;
  gridTiles[unit].scrollIntoView({ block: "nearest" });
  showInAddress(`#unit-${unit}`);
  const close = element("button", { className: "close", type: "button", "aria-label": "close" }, "\u00d7");
  close.addEventListener("click", leave);
  const rows = measures.slice(1).map(({ key, name }) => element("tr", {}, element("td", {}, name), element("td", {}, short(units[key][unit]))));
  const head = element("div", { className: "head" }, unitTile(unit, "div"), element("div", { className: "figures" }, close, element("h2", {}, `Unit ${unit}`), element("table", {}, ...rows)));
  const dead = content.dead.includes(unit) ? element("p", {}, `It is dead: it answers to all ${content.samples} alike.`) : null;
  panel.replaceChildren(
    head, ...(dead ? [dead] : []),
    ...(content.kind === "images" ? topPatches(unit) : topSamples(unit)),
    ...section(`How strongly it answers to ${content.samples} (largest ${short(units.largest[unit])})`, histogram(unit)),
    ...section("Most similar units (cosine)", neighbors(content.nearest[unit])),
    ...section("Units that answer together with it (correlation)", neighbors(content.together[unit])),
  );
}

function leave() {
  panel.hidden = true;
  document.body.classList.remove("choosing");
  if (chosen === null) return;
  gridTiles[chosen].setAttribute("aria-selected", "false");
  const next = order.includes(chosen) ? gridTiles[chosen] : byId("sort"); // it may be filtered out by now
  chosen = null;
  next.focus();
  showInAddress("");
}

// Frames without an address of their own, as some previews use, do not let it be changed.
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
  const figures = content.top[unit].map(({ tile, place, answer }) => {
    const patch = element("button", {
      className: "tile patch", type: "button", style: positionOf(content.patches, tile), title: content.images[place[0]].name,
      "aria-label": `patch of ${content.images[place[0]].name}, row ${place[1]}, column ${place[2]}, answer ${short(answer)}`,
    });
    const show = () => showPlace(where, caption, place);
    for (const event of ["click", "focus", "mouseenter"]) patch.addEventListener(event, show);
    return element("figure", {}, patch, element("figcaption", {}, short(answer)));
  });
  showPlace(where, caption, content.top[unit][0].place);
  return section("What excites it most, and where that is", strip(figures), caption, where);
}

function showPlace(where, caption, [number, top, left]) {
  const image = content.images[number];
  const size = content.patches.size;
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
    ...section("Features with the largest weights", rows(content.features[unit])),
    ...section("Samples that excite it most (row, answer)", rows(content.top[unit].map(({ sample, answer }) => [`row ${sample}`, answer]))),
  ];
}

function histogram(unit) {
  const counts = content.histogram[unit];
  // By logarithm: most answers are near zero, and the few strong ones are what one looks for.
  const height = (value) => (50 * Math.log1p(value)) / Math.log1p(Math.max(...counts));
  const bars = counts.map((value, k) => `<rect x="${k * 15}" y="${50 - height(value)}" width="13" height="${height(value)}"><title>${value}</title></rect>`);
  const holder = element("div");
  holder.innerHTML = `<svg viewBox="0 0 300 62" role="img" aria-label="numbers of ${content.samples} by strength of the answer">${bars.join("")}<text x="0" y="60">0</text><text x="300" y="60" text-anchor="end">largest (counts by logarithm)</text></svg>`;
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

showFacts();
for (const { title, explanation, svg } of content.charts) {
  const figure = element("figure");
  figure.innerHTML = svg;
  figure.append(element("figcaption", {}, element("b", {}, title), explanation));
  byId("charts").append(figure);
}
addTileStyle("of-unit", tiles);
if (content.kind === "images") addTileStyle("patch", content.patches);
for (const id of ["sort", "measure"]) {
  byId(id).append(...measures.map(({ key, name }) => element("option", { value: key }, name)));
}
byId("sort").addEventListener("change", () => {
  byId("descending").checked = !["number", "orientation"].includes(byId("sort").value);
  arrange();
});
for (const id of ["descending", "measure", "from", "to"]) byId(id).addEventListener("input", arrange);
byId("all").addEventListener("click", () => {
  byId("from").value = 0;
  byId("to").value = 100;
  arrange();
});
arrange();
function followAddress() {
  const linked = /^#unit-(\d+)$/.exec(location.hash);
  if (linked && Number(linked[1]) < count) choose(Number(linked[1]));
}
addEventListener("hashchange", followAddress);
followAddress();
