// Labels: people give some, the classifier predicts all others. They are kept in the browser, and saved as a table.
// Classes are identified by their numbers, in the order in which they appeared: colors and keys stay with them.
const N_PROPOSED = 10;
const N_SHOWN = 6; // of the surest and of the most doubtful samples of a class
const FEWEST_CHECKED = 10; // labels, to tell an accuracy from
const MOST_STEPS = 200; // to undo
const KEYS = "123456789abcdefghijklm"; // the key of each class
const STORED = `epls labels ${content.digest}`;
// Found by a search for colors that differ most, also as people with protanopia, deuteranopia or tritanopia see them: any two
// are at least 20 apart in CIELAB.
const CLASS_COLORS = ["#0096a5", "#ffb400", "#7800ff", "#b40f1e", "#c3c369", "#4b5aa5", "#b45aff", "#a5b4ff", "#1ed2b4", "#963c5a", "#ff0f00", "#d26969"];

const classNames = [];
const given = new Int16Array(count).fill(-1); // the class that a person gave to each sample
const fair = new Uint8Array(count); // whether a labelled sample was drawn at random
const past = []; // what was changed, to undo it
const codes = rowsOf({ values: unpacked(content.codes.values, Int8Array), scales: content.codes.scales });
const fromFile = { label: new Int16Array(count).fill(-1), confidence: new Float32Array(count), margin: new Float32Array(count) };
let predicted = fromFile; // the class of each sample, and how certain it is
let model = null;
let propose = null;
let proposals = []; // samples to label next
let atRandom = false; // whether they are drawn at random
let cursor = 0; // the place of the one to label
let isKept = true; // in the browser

const classNumber = (name) => {
  if (!classNames.includes(name)) classNames.push(name);
  return classNames.indexOf(name);
};
const nGiven = () => given.reduce((sum, number) => sum + (number >= 0), 0);
const numberOfLabel = (sample) => (given[sample] >= 0 ? given[sample] : predicted.label[sample]);
const labelOf = (sample) => classNames[numberOfLabel(sample)];
const toldLabel = (sample) => (given[sample] >= 0 ? `${labelOf(sample)} (given)` : labelOf(sample) === undefined ? "none" : `${labelOf(sample)} (predicted, ${percent(predicted.confidence[sample])})`);
const percent = (share) => `${Math.round(100 * share)} %`;
const usedClasses = () => {
  const counts = new Array(classNames.length).fill(0);
  for (const number of given) if (number >= 0) counts[number] += 1;
  return counts;
};
const classColor = (number) => (number < 0 ? byHue(-1) : number < CLASS_COLORS.length ? [1, 3, 5].map((at) => parseInt(CLASS_COLORS[number].slice(at, at + 2), 16)) : byHue(number));
const clean = (name) => name.replace(/[\p{Cc}\p{Cs}]/gu, " ").trim().slice(0, 200);

// --- giving and taking back ---
function begin() {
  for (const name of content.labels?.classes ?? []) classNumber(name);
  if (content.labels) {
    const [of, confidence, byHand] = [unpacked(content.labels.of, Int32Array), unpacked(content.labels.confidence, Uint8Array), unpacked(content.labels.given, Uint8Array)];
    for (let sample = 0; sample < count; sample++) {
      if (byHand[sample]) given[sample] = of[sample];
      else [fromFile.label[sample], fromFile.confidence[sample]] = [of[sample], confidence[sample] / 100];
    }
  }
  restore();
  learnAgain();
}

// What the browser kept may have been written by anything: it is checked.
function restore() {
  try {
    const { names, samples, of, drawn } = JSON.parse(localStorage.getItem(STORED) ?? "{}");
    const isNumber = (value, limit) => Number.isInteger(value) && value >= 0 && value < limit;
    if (![names, samples, of, drawn].every(Array.isArray) || samples.length !== of.length) return;
    if (!names.every((name) => typeof name === "string" && name && name === clean(name))) return;
    if (!samples.every((sample) => isNumber(sample, count)) || !of.every((number) => isNumber(number, names.length))) return;
    const numbers = names.map(classNumber);
    given.fill(-1);
    samples.forEach((sample, k) => { given[sample] = numbers[of[k]]; });
    for (const sample of drawn) if (isNumber(sample, count)) fair[sample] = Number(given[sample] >= 0);
  } catch {
    isKept = false;
  }
}

function keep() {
  const samples = [...given.keys()].filter((sample) => given[sample] >= 0);
  const stored = { names: classNames, samples, of: samples.map((sample) => given[sample]), drawn: samples.filter((sample) => fair[sample]) };
  try {
    localStorage.setItem(STORED, JSON.stringify(stored));
    isKept = true;
  } catch {
    isKept = false;
  }
  unsaved = !isKept && samples.length > 0;
}

// Only classes that have labels can be predicted.
function learnAgain() {
  const started = performance.now();
  const used = [...usedClasses().entries()].filter(([, many]) => many > 0).map(([number]) => number);
  [model, predicted] = [null, fromFile];
  if (used.length > 1) {
    const placeOf = new Int16Array(classNames.length);
    used.forEach((number, place) => { placeOf[number] = place; });
    model = learn(codes, given.map((number) => (number < 0 ? -1 : placeOf[number])), used.length);
    predicted = predict(codes, model);
    predicted.label = predicted.label.map((place) => used[place]);
  }
  document.body.dataset.milliseconds = performance.now() - started;
}

function proposeAgain() {
  const free = [...order].filter((sample) => given[sample] < 0);
  if (atRandom) {
    proposals = [];
    while (proposals.length < N_PROPOSED && free.length) proposals.push(...free.splice(Math.floor(Math.random() * free.length), 1));
  } else {
    propose ??= newProposer(codes, order);
    proposals = propose(given, model && predicted.margin.map((margin) => 1 - margin), N_PROPOSED);
  }
  cursor = 0;
}

// Give samples the label of a class, or none (-1).
function give(samples, number) {
  past.push({ samples, before: samples.map((sample) => [given[sample], fair[sample]]) });
  if (past.length > MOST_STEPS) past.shift();
  for (const sample of samples) {
    fair[sample] = number < 0 ? 0 : Number(fair[sample] || (atRandom && proposals.includes(sample)));
    given[sample] = number;
  }
  changed();
  say(`${plural(samples.length)} ${number < 0 ? "without a label" : `labelled ${classNames[number]}`}. ${progressText()}`);
}

function undo() {
  const last = past.pop();
  if (!last) return;
  last.samples.forEach((sample, k) => { [given[sample], fair[sample]] = last.before[k]; });
  changed();
  if (last.samples.length === 1 && proposals.length) [proposals, cursor] = [[last.samples[0], ...proposals.filter((sample) => sample !== last.samples[0])], 0];
  refresh();
  say(`Undone. ${progressText()}`);
}

function changed() {
  state.selected.fill(0);
  delete byId("hover").dataset.sample; // it shows a label
  learnAgain();
  keep();
  proposals = proposals.filter((sample) => given[sample] < 0);
  cursor = Math.max(0, Math.min(cursor, proposals.length - 1));
  state.colorBy = byId("color").value = "label";
  colorAgain();
  refresh();
}

// --- what is labelled next, by button or key ---
function target() {
  const selected = selection();
  if (selected.length) return selected;
  if (shownTab === "sample") return state.chosen >= 0 ? [state.chosen] : [];
  return shownTab === "labels" ? proposals.slice(cursor, cursor + 1) : [];
}

function giveTarget(number) {
  const samples = target();
  if (samples.length) give(samples, number);
}

const shownClasses = () => [...usedClasses().entries()].filter(([number, many]) => many > 0 || fromFile.label.includes(number)).map(([number]) => number);

function labelKey(event) {
  const within = event.target.closest?.("input, select, textarea, #tabs") ?? null;
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z" && !within) undo();
  else if (within || event.ctrlKey || event.metaKey || event.altKey) return;
  else if (event.key === "n" && target().length && byId("label")) byId("label").focus();
  else if (event.key.length === 1 && KEYS.includes(event.key) && shownClasses()[KEYS.indexOf(event.key)] !== undefined && target().length) giveTarget(shownClasses()[KEYS.indexOf(event.key)]);
  else if ((event.key === "Delete" || event.key === "Backspace") && target().some((sample) => given[sample] >= 0)) giveTarget(-1);
  else if (event.target === canvas || event.target.closest?.("button")) return;
  else if (event.key === "Enter" && model && target().length) giveTarget(numberOfLabel(target()[0]));
  else if (shownTab === "labels" && ["ArrowLeft", "ArrowRight"].includes(event.key)) moveCursor(event.key === "ArrowLeft" ? -1 : 1);
  else return;
  event.preventDefault();
}
document.addEventListener("keydown", labelKey);

function moveCursor(step) {
  if (!proposals.length) return;
  cursor = (cursor + step + proposals.length) % proposals.length;
  const sample = proposals[cursor];
  say(`${nameOf(sample)}, ${toldLabel(sample)}`);
  refresh();
}

// --- the panel ---
function labelsPanel() {
  if (!proposals.length) proposeAgain();
  return [labelBar(), progress(), keptNote(), ...contradicted(), ...shownClasses().map(classCard)];
}

function labelBar() {
  const selected = selection();
  const samples = target();
  const bar = element("section", { className: "bar-of-labels", "aria-label": "Give a label" });
  if (!samples.length) {
    bar.append(element("p", {}, `All ${plural(count)} have a label.`));
    return bar;
  }
  const isOne = samples.length === 1;
  const title = selected.length ? `Label the selection: ${plural(samples.length)}` : atRandom ? "Drawn at random" : "Label these next";
  const modes = element("span", { className: "choice", role: "group", "aria-label": "What to propose" }, ...[["helpful", "Most helpful", false], ["random", "At random", true]].map(([id, text, value]) => button(text, () => { atRandom = value; proposeAgain(); refresh(); }, { id: `propose-${id}`, "aria-pressed": String(atRandom === value) })));
  bar.append(element("div", { className: "title" }, element("b", {}, title), ...(selected.length ? [button("Save names", saveNames, { id: "save-names" }), button("Clear", () => select([]), { id: "clear" })] : [modes])));
  const shown = isOne && isImages ? thumb(samples[0], 116, "div") : isOne ? element("div", {}, element("b", {}, nameOf(samples[0])), valuesOf(samples[0])) : thumbs(samples.slice(0, 12), null, 46, toggle);
  const [first] = samples;
  const about = isOne && (given[first] >= 0 || model) ? element("p", { className: "guess" }, given[first] >= 0 ? `Label: ${labelOf(first)}` : `Probably ${labelOf(first)}, ${percent(predicted.confidence[first])}`) : null;
  bar.append(element("div", { className: isOne && isImages ? "one" : "many" }, element("div", {}, shown, ...(samples.length > 12 ? [element("p", { className: "explanation" }, `and ${samples.length - 12} more`)] : [])), element("div", {}, about, choices(samples))));
  if (!selected.length) bar.append(queue());
  return bar;
}

// A button for each class, and a field for a new one.
function choices(samples) {
  const predictedNumber = samples.length === 1 && given[samples[0]] < 0 ? predicted.label[samples[0]] : -1;
  const current = samples.length === 1 ? given[samples[0]] : -1;
  const buttons = shownClasses().map((number, k) => {
    const made = button("", () => give(samples, number), { id: `class-${number}`, className: `class${number === predictedNumber ? " probable" : ""}`, title: classNames[number], "aria-pressed": String(number === current) });
    made.append(classSwatch(number), element("span", {}, classNames[number]), ...(KEYS[k] ? [element("kbd", {}, KEYS[k])] : []));
    return made;
  });
  const input = element("input", { type: "text", id: "label", placeholder: buttons.length ? "another label" : "a label, such as cat", "aria-label": "A new label", autocomplete: "off", maxLength: 200 });
  const form = element("form", { className: "row" }, input, element("button", { type: "submit" }, "Label"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const name = clean(input.value);
    if (!name) return input.focus();
    give(samples, classNumber(name));
    byId("panel").focus({ preventScroll: true });
  });
  const remove = samples.some((sample) => given[sample] >= 0) ? button("Remove the label", () => give(samples, -1), { id: "remove-label" }) : null;
  return element("div", { className: "choices" }, element("div", { className: "classes" }, ...buttons), form, remove);
}

const classSwatch = (number) => element("span", { className: "swatch", style: `--swatch: ${cssColor(classColor(number))}` });

function queue() {
  const strip = thumbs(proposals, null, isImages ? 28 : 0, (sample) => { cursor = proposals.indexOf(sample); refresh(); });
  [...strip.children].forEach((tile, k) => tile.setAttribute("aria-current", String(k === cursor)));
  strip.classList.add("queue");
  return strip;
}

const progressText = () => `${nGiven().toLocaleString("en")} of ${plural(count)} labelled.${model ? ` ${accuracyText()}` : ""}`;

// Labels that people chose or that were proposed are easier or harder than the rest: random ones tell the accuracy.
const checkedSamples = () => model.known.filter((sample) => fair[sample]);
function accuracyText() {
  const drawn = checkedSamples();
  const isFair = drawn.length >= FEWEST_CHECKED;
  if (!isFair && model.known.length < FEWEST_CHECKED) return "";
  const { share, low, high, many } = accuracyOf(model, isFair ? drawn : model.known);
  const figures = `${percent(share)} (95 % interval: ${Math.round(100 * low)} to ${percent(high)})`;
  if (isFair) return `Accuracy: ${figures}, from ${many} ${what}s drawn at random.`;
  return `${percent(share)} of your labels are predicted correctly from the others ${figures.slice(figures.indexOf("("))}. They may be harder or easier than the rest.`;
}

function progress() {
  const many = nGiven();
  const head = element("div", { className: "title" }, element("b", {}, `${many.toLocaleString("en")} of ${count.toLocaleString("en")} labelled`), button("Undo", undo, { id: "undo", disabled: past.length === 0, title: "Ctrl+Z" }), button("Save (CSV)", saveLabels, { id: "save-labels", disabled: many === 0 }));
  const part = element("section", { className: "progress" }, head, element("progress", { max: count, value: many, "aria-label": "Labelled" }));
  if (!model) part.append(element("p", { className: "explanation" }, `As soon as two classes have a label, all other ${what}s get a predicted one, and the map its colors.`));
  else if (accuracyText()) part.append(element("p", { id: "accuracy" }, accuracyText()));
  const missing = model ? FEWEST_CHECKED - checkedSamples().length : 0;
  if (missing > 0 && !atRandom) part.append(element("div", { className: "row" }, button(`Measure the accuracy: label ${missing} at random`, () => { atRandom = true; proposeAgain(); refresh(); }, { id: "measure" })));
  return part;
}

function classCard(number) {
  const [own, others] = [[], []];
  for (let sample = 0; sample < count; sample++) {
    if (given[sample] === number) own.push(sample);
    else if (given[sample] < 0 && predicted.label[sample] === number) others.push(sample);
  }
  others.sort((a, b) => predicted.confidence[b] - predicted.confidence[a]);
  const title = element("div", { className: "title" }, classSwatch(number), element("b", {}, classNames[number]), button("Select", () => select(own.concat(others)), { "aria-label": `Select all ${classNames[number]}` }), ...(own.length ? [button("Remove", () => give(own, -1), { "aria-label": `Remove the label ${classNames[number]}` })] : []));
  const card = element("section", { className: "group class-card" }, title, element("p", {}, `${own.length.toLocaleString("en")} labelled, ${others.length.toLocaleString("en")} predicted`));
  if (!others.length) return card;
  const row = (text, samples) => [element("h4", {}, text), thumbs(samples, samples.map((sample) => percent(predicted.confidence[sample])), isImages ? 46 : 0, toggle)];
  const doubtful = others.slice(Math.max(N_SHOWN, others.length - N_SHOWN)).reverse();
  card.append(...row("Surest", others.slice(0, N_SHOWN)), ...(doubtful.length ? row("Most doubtful", doubtful) : []));
  if (model && doubtful.length) card.append(element("div", { className: "row" }, button("The doubtful ones are right", () => give(doubtful.filter((sample) => !state.selected[sample]), number), { "aria-label": `The doubtful ones are ${classNames[number]}` }), element("span", { className: "explanation" }, "A wrong one? Click it, then its label.")));
  return card;
}

// Labels that the classifier contradicts, though it has learned from them.
function contradicted() {
  const samples = model ? model.known.filter((sample) => predicted.label[sample] !== given[sample]) : [];
  if (!samples.length) return [];
  samples.sort((a, b) => predicted.confidence[b] - predicted.confidence[a]);
  const shown = samples.slice(0, 2 * N_SHOWN);
  return [element("section", { className: "group" }, element("div", { className: "title" }, element("b", {}, `Labels to check: ${samples.length.toLocaleString("en")}`)), element("p", {}, "The prediction differs from the label that was given."), thumbs(shown, shown.map((sample) => `${classNames[predicted.label[sample]]}?`), isImages ? 46 : 0, toggle))];
}

function keptNote() {
  const where = isKept ? "Labels are kept in this browser for this page: they are here again after a reload." : "This browser keeps no labels for this page: save them before you close it.";
  const more = [
    "Keys: that of a class gives its label, Enter the predicted one, n writes a new one. Arrows go through the proposals, Delete removes a label, Ctrl+Z undoes.",
    "The saved table has given and predicted labels, and says which is which. epls explore DATA --labels labels.csv shows it again. epls classify DATA --labels labels.csv predicts from the given ones, with more numbers of each sample than this page has.",
  ];
  return element("div", { className: "explanation" }, element("p", {}, where), element("details", {}, element("summary", {}, "Keys, and what to do with the table"), ...more.map((text) => element("p", {}, text))));
}

// --- the table ---
// As the library writes tables (csv_name and _with_guard): no cell that a spreadsheet would run as a formula.
const isFormula = (text) => /^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/.test(text);
const cell = (text) => `"${text.replaceAll('"', '""')}"`;
const nameCell = (name) => (content.nameColumn === "row" ? name : cell((isFormula(name) ? "./" : "") + name));
const labelCell = (label) => cell((isFormula(label.replace(/^'+/, "")) && Number.isNaN(Number(label)) ? "'" : "") + label);

function saveLabels() {
  const lines = [`${content.nameColumn},label,confidence,source`];
  for (let sample = 0; sample < count; sample++) {
    if (labelOf(sample) === undefined) continue;
    const isGiven = given[sample] >= 0;
    lines.push(`${nameCell(content.names[sample])},${labelCell(labelOf(sample))},${(isGiven ? 1 : predicted.confidence[sample]).toFixed(4)},${isGiven ? "given" : "predicted"}`);
  }
  save("labels.csv", lines);
  unsaved = false;
}
