// The panels beside the map, and their controls.
const nearest = unpacked(content.nearest, Uint32Array);
const cosines = unpacked(content.cosines, Uint8Array);
const folderOf = foldersOfNames();
const what = isImages ? "image" : "row";
const plural = (number, word = what) => `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;
const nameOf = (sample) => (content.nameColumn === "file" ? content.names[sample] : `${what} ${content.names[sample]}`);
let unsaved = false;
let onlyGroup = -1;
let shownTab = "groups";

function foldersOfNames() {
  const folders = content.names.map((name) => (content.nameColumn === "file" && name.includes("/") ? name.split("/")[0] : ""));
  const different = [...new Set(folders)].sort();
  return different.length > 1 && different.length <= 200 ? { of: folders, names: different } : null;
}

// --- pictures ---
function thumb(sample, side = 68, name = "button") {
  const label = nameOf(sample);
  if (!isImages) return element(name, { className: `chip${state.selected[sample] ? " is-selected" : ""}`, title: label }, element("span", { className: "swatch", style: `--swatch: ${cssColor(colorOf(sample))}` }), label);
  const picture = pictureOf(sample);
  const scale = side / Math.max(picture.width, picture.height);
  const rows = Math.ceil(Math.min(content.perSheet, count - picture.sheet * content.perSheet) / content.across);
  const size = `${content.across * content.side * scale}px ${rows * content.side * scale}px`;
  const style = `width: ${picture.width * scale}px; height: ${picture.height * scale}px; background-size: ${size}; background-position: ${-picture.left * scale}px ${-picture.top * scale}px`;
  const made = element(name, { className: `thumb sheet-${picture.sheet}`, style, title: label });
  made.setAttribute("aria-label", label);
  if (name !== "button") made.setAttribute("role", "img");
  if (state.selected[sample]) made.classList.add("is-selected");
  return made;
}

const show = (sample) => { choose(sample, true); byId("panel").focus({ preventScroll: true }); };

function thumbs(samples, captions = null, side = 68, act = show) {
  const holder = element("div", { className: "thumbs" });
  for (const [k, sample] of samples.entries()) {
    const button = thumb(sample, side);
    button.type = "button";
    button.addEventListener("click", () => act(sample));
    holder.append(captions ? element("figure", {}, button, element("figcaption", {}, captions[k])) : button);
  }
  return holder;
}

const swatch = (number) => element("span", { className: "swatch", style: `--swatch: ${cssColor(byHue(number))}` });
const button = (text, act, properties = {}) => {
  const made = element("button", { type: "button", ...properties }, text);
  made.addEventListener("click", act);
  return made;
};
const say = (text) => { byId("status").textContent = text; };

// --- tabs ---
const tabs = { groups: ["Groups", groupsPanel], sample: [isImages ? "Image" : "Row", samplePanel], labels: ["Labels", labelsPanel], odd: ["Outliers", oddPanel], twins: ["Duplicates", twinsPanel] };

function showTab(name) {
  shownTab = name;
  for (const tab of byId("tabs").children) {
    tab.setAttribute("aria-selected", String(tab.dataset.tab === name));
    tab.tabIndex = tab.dataset.tab === name ? 0 : -1;
  }
  byId("panel").setAttribute("aria-labelledby", `tab-${name}`);
  byId("panel").replaceChildren(...tabs[name][1]());
  byId("panel").scrollTop = 0;
}

const refresh = () => {
  const at = byId("panel").scrollTop;
  const { id } = document.activeElement;
  showTab(shownTab);
  byId("panel").scrollTop = at;
  if (id) byId(id)?.focus({ preventScroll: true });
};

function addTabs() {
  const names = Object.keys(tabs);
  for (const [k, name] of names.entries()) {
    const tab = button(tabs[name][0], () => showTab(name), { id: `tab-${name}`, role: "tab", "aria-controls": "panel" });
    tab.dataset.tab = name;
    tab.addEventListener("keydown", (event) => {
      const next = { ArrowLeft: k - 1, ArrowRight: k + 1, Home: 0, End: names.length - 1 }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      const other = byId("tabs").children[(next + names.length) % names.length];
      other.click();
      other.focus();
    });
    byId("tabs").append(tab);
  }
}

// --- groups ---
function groupsPanel() {
  const dense = content.groupKind === "density";
  const outside = groupOf.reduce((sum, number) => sum + (number < 0), 0);
  const kind = dense ? `The groups are the islands of the map; ${plural(outside)} lie${outside === 1 ? "s" : ""} outside them.` : `${content.groups.length} groups of equal size.${content.groupsChosen ? " The islands of the map are not clear enough to be groups: one has more than half of all, or more than 20 % lie outside them, or more than 5 % halfway between two." : ""}`;
  const intro = `${plural(count)}, compared by ${content.basis}. ${kind}`;
  return [element("p", { className: "explanation" }, intro), ...content.groups.map(groupCard)];
}

function groupCard(group, number) {
  const focus = button("Only these", () => showOnly(number), { "aria-pressed": String(onlyGroup === number) });
  const members = () => order.filter((sample) => groupOf[sample] === number);
  const title = element("div", { className: "title" }, swatch(number), element("b", {}, `Group ${number + 1}: ${plural(group.size)}`), focus, button("Select", () => select([...members()])));
  const card = element("section", { className: "group", id: `group-${number + 1}` }, title, thumbs(group.typical, null, isImages ? 54 : 0));
  if (group.traits.length) card.append(mostly(group.traits));
  if (group.columns?.length) card.append(mostly(group.columns.map(([column, difference]) => `${content.columns?.[column] ?? `feature ${column}`} ${difference > 0 ? "+" : "\u2212"}${Math.abs(difference).toFixed(1)} sd`)));
  if (group.labels.length) card.append(element("p", {}, `Labels: ${group.labels.map(([label, n]) => `${label} ${n}`).join(", ")}`));
  if (group.units.length && content.units) card.append(element("p", {}, "Filters that respond more here: ", filters(group.units)));
  if (group.between.length) {
    const border = element("details", {}, element("summary", {}, `Between this and group ${group.next + 1}: ${plural(group.between.length)}`));
    border.addEventListener("toggle", () => { if (border.open && border.children.length === 1) border.append(thumbs(group.between, null, 46)); });
    card.append(border);
  }
  return card;
}

const mostly = (traits) => element("p", { title: `True of at least three in four of the group, compared with the median of all ${what}s` }, `Mostly ${traits.join(", ")}.`);

function filters(units) {
  const { columns, rows } = content.units;
  const part = (k, n) => (n > 1 ? (100 * k) / (n - 1) : 0);
  return element("span", { className: "filters" }, ...units.map(([unit, difference]) => element("span", {
    className: "tile filter", role: "img", "aria-label": `filter ${unit}`, title: `filter ${unit}: ${difference.toFixed(1)} standard deviations more than on average`,
    style: `background-size: ${columns * 100}% ${rows * 100}%; background-position: ${part(unit % columns, columns)}% ${part(Math.floor(unit / columns), rows)}%`,
  })));
}

function showOnly(number) {
  onlyGroup = onlyGroup === number ? -1 : number;
  state.only = onlyGroup < 0 ? null : Uint8Array.from(groupOf, (group) => Number(group === onlyGroup));
  if (onlyGroup >= 0) flyToSamples([...order.filter((sample) => groupOf[sample] === number)]);
  else showAll();
  refresh();
}

// --- the chosen sample ---
function samplePanel() {
  if (state.chosen < 0) return [element("p", { className: "explanation" }, `Click a sample on the map to see its nearest neighbours.`)];
  const sample = state.chosen;
  const k = content.nNearest;
  const near = [...nearest.subarray(sample * k, (sample + 1) * k)];
  const captions = near.map((_, place) => (cosines[sample * k + place] / 100).toFixed(2));
  const group = groupOf[sample];
  const large = isImages ? thumb(sample, Math.min(260, Math.max(120, 2 * content.side)), "div") : null;
  large?.classList.add("large");
  return [
    element("h2", {}, nameOf(sample)), ...(large ? [large] : [valuesOf(sample)]),
    element("p", {}, `Label: ${toldLabel(sample)}`), choices([sample]),
    element("div", { className: "row" },
      button(state.selected[sample] ? "Remove from selection" : "Add to selection", () => toggle(sample)),
      button("Show on the map", () => flyToSamples([sample, ...near])),
      ...(group >= 0 ? [button(`Group ${group + 1}`, () => { showTab("groups"); byId(`group-${group + 1}`).scrollIntoView({ block: "start" }); })] : [])),
    element("h3", {}, `Nearest ${what}s (similarity)`), thumbs(near, captions),
    element("div", { className: "row" }, button("Select it and the nearest", () => select([sample, ...near]))),
  ];
}

function valuesOf(sample) {
  const [columns, values] = [unpacked(content.unusual, Uint32Array), unpacked(content.values, Float32Array)];
  const rows = Array.from({ length: content.nUnusual }, (_, k) => sample * content.nUnusual + k);
  return element("div", {}, element("h3", {}, "Its most unusual values"), element("table", {}, ...rows.map((at) => element("tr", {}, element("td", {}, content.columns[columns[at]]), element("td", {}, String(Number(values[at].toPrecision(4))))))));
}

function choose(sample, fly = false) {
  state.chosen = sample;
  if (fly && sample >= 0) {
    const [x, y] = toScreen(sample);
    if (x < 20 || y < 20 || x > width - 20 || y > height - 20) flyTo([place[2 * sample], place[2 * sample + 1]], state.zoom);
  }
  if (sample >= 0) say(`${nameOf(sample)}${state.selected[sample] ? ", selected" : ""}`);
  showTab(sample >= 0 ? "sample" : shownTab);
  redraw();
}

// --- selection and labels ---
const selection = () => { const found = []; for (let k = 0; k < count; k++) if (state.selected[k]) found.push(k); return found; };

function select(samples, { add = false, open = true } = {}) {
  if (!add) state.selected.fill(0);
  for (const sample of samples) state.selected[sample] = 1;
  say(`${plural(selection().length)} selected`);
  if (open) showTab("labels");
  redraw();
}

function toggle(sample) {
  state.selected[sample] = 1 - state.selected[sample];
  say(`${nameOf(sample)} ${state.selected[sample] ? "selected" : "no longer selected"}`);
  refresh();
  redraw();
}

const quoted = (text) => (/[",\r\n]/.test(text) || text.trim() !== text ? `"${text.replaceAll('"', '""')}"` : text);

// Encode as UTF-8. Bytes of file names that are not valid UTF-8 are surrogates in Python and here; restore these bytes.
function bytesOf(text) {
  const encoder = new TextEncoder();
  const parts = text.split(/((?<![\ud800-\udbff])[\udc80-\udcff])/);
  return new Blob(parts.map((part, k) => (k % 2 ? Uint8Array.of(part.charCodeAt(0) - 0xdc00) : encoder.encode(part))));
}

function save(name, lines) {
  const link = element("a", { href: URL.createObjectURL(bytesOf(lines.map((line) => `${line}\r\n`).join(""))), download: name });
  document.body.append(link);
  link.click();
  link.remove();
}

const saveNames = () => save("selection.txt", selection().map((sample) => quoted(content.names[sample])));

// --- outliers and duplicates ---
function oddPanel() {
  const samples = content.outliers.map(([sample]) => sample);
  if (!samples.length) return [element("p", { className: "explanation" }, `No ${what} is unusually far from its nearest ${what}s.`)];
  const captions = content.outliers.map(([, times]) => `${times.toFixed(1)} \u00d7`);
  return [
    element("p", { className: "explanation" }, `${plural(samples.length)} unusually far from the nearest ${what}s: beyond the median of all by more than four times the usual spread. 2 \u00d7 means: twice as far as these are from theirs, and as ${what}s usually are. The farthest come first.`),
    element("div", { className: "row" }, button("Select these", () => select(samples))),
    thumbs(samples, captions),
  ];
}

// The sets that pairs with at least this score connect, the largest first, each with its lowest score.
function setsOf(pairs, least) {
  const setOf = new Map();
  for (const [first, second, score] of pairs) {
    if (score < least) break;
    const both = [setOf.get(first) ?? { samples: [first] }, setOf.get(second) ?? { samples: [second] }];
    const joined = { samples: [...both[0].samples, ...both[1].samples], score };
    for (const sample of joined.samples) setOf.set(sample, joined);
  }
  return [...new Set(setOf.values())].map(({ samples, score }) => ({ samples: samples.sort((a, b) => a - b), score })).sort((a, b) => b.samples.length - a.samples.length || b.score - a.score);
}

let leastScore = content.duplicates.usual;
function twinsPanel() {
  const { pairs, least, turned } = content.duplicates;
  if (!pairs.length) return [element("p", { className: "explanation" }, "No near-duplicates were found.")];
  const holder = element("div");
  const show = () => {
    const sets = setsOf(pairs, leastScore);
    const spare = sets.flatMap((set) => set.samples.slice(1));
    holder.replaceChildren(
      element("p", { "aria-live": "polite" }, sets.length ? `${plural(sets.length, "set")} of near-duplicates, similarity ${leastScore.toFixed(2)} or more.` : `No near-duplicates with a similarity of ${leastScore.toFixed(2)} or more.`),
      ...(sets.length ? [element("div", { className: "row" }, button("Select all but the first of each", () => select(spare)))] : []),
      ...sets.map(({ samples, score }) => element("section", { className: "group" }, thumbs(samples.slice(0, 24)), element("p", {}, `${score.toFixed(2)}: ${samples.slice(0, 4).map(nameOf).join(", ")}${samples.length > 4 ? `, and ${samples.length - 4} more` : ""}`))));
  };
  const slider = element("input", { type: "range", id: "strictness", min: least, max: 1, step: 0.01, value: leastScore });
  slider.addEventListener("input", () => { leastScore = Number(slider.value); show(); });
  show();
  const how = isImages ? `Small gray pictures of the images are aligned and compared${turned ? ", also mirrored and rotated" : ""}; 1 is the same picture.` : "1 is the same row; 0 is as far as a nearest row usually is.";
  return [element("p", { className: "explanation" }, how), element("label", { className: "row" }, "More pairs", slider, "fewer"), holder];
}

// --- colors ---
function colorAgain() {
  const folders = new Map((folderOf?.names ?? []).map((name, k) => [name, k]));
  const byLabel = state.colorBy === "label";
  colorOf = {
    label: (sample) => classColor(numberOfLabel(sample)),
    folder: (sample) => byHue(folders.get(folderOf.of[sample])),
    own: (sample) => meanColors.subarray(3 * sample, 3 * sample + 3),
  }[state.colorBy] ?? ((sample) => byHue(groupOf[sample]));
  // The more certain a prediction is, the stronger is its color.
  strengthOf = byLabel ? (sample) => (given[sample] >= 0 ? 1 : Math.max(0.12, predicted.confidence[sample] ** 2)) : () => 1;
  isMarked = byLabel ? (sample) => given[sample] >= 0 : () => false;
  const shown = byLabel ? shownClasses().map((number) => [classNames[number], classSwatch(number)]) : state.colorBy === "folder" ? [...folders].map(([name, k]) => [name, swatch(k)]) : [];
  byId("legend").replaceChildren(...shown.slice(0, 20).map(([name, mark]) => element("span", { title: name }, mark, name || "no folder")));
  recolor();
}

const colorings = { group: "by group", label: "by label", ...(folderOf ? { folder: "by folder" } : {}), ...(isImages ? { own: "of the image" } : {}) };
byId("color").append(...Object.entries(colorings).map(([value, text]) => element("option", { value }, text)));
byId("color").addEventListener("change", () => { state.colorBy = byId("color").value; colorAgain(); });

// --- tools ---
function press(kind, value) {
  for (const other of document.querySelectorAll(`[data-${kind}]`)) other.setAttribute("aria-pressed", String(other.dataset[kind] === value));
}
for (const tool of document.querySelectorAll("[data-tool]")) tool.addEventListener("click", () => { state.tool = tool.dataset.tool; press("tool", state.tool); canvas.classList.toggle("drawing", state.tool !== "move"); });
for (const layout of document.querySelectorAll("[data-layout]")) layout.addEventListener("click", () => { arrangeAs(layout.dataset.layout); press("layout", state.layout); });
byId("closer").addEventListener("click", () => zoomBy(1.5));
byId("farther").addEventListener("click", () => zoomBy(1 / 1.5));
byId("whole").addEventListener("click", showAll);
let found = []; // by name
byId("find").addEventListener("input", () => {
  const text = byId("find").value.toLowerCase();
  found = text ? content.names.flatMap((name, sample) => (name.toLowerCase().includes(text) ? [sample] : [])) : [];
  select(found, { open: text !== "" });
  if (found.length) flyToSamples(found);
});
// Enter opens the first one that was found, and then the next.
byId("find").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && found.length) choose(found[(found.indexOf(state.chosen) + 1) % found.length], true);
});
