const entries = content.entries;
const panel = byId("row");
const body = byId("rows").tBodies[0];
const heads = byId("rows").tHead.rows[0];
let sortedBy = "accuracy";
let descending = true;

const seconds = (value) => (value < 10 ? value.toPrecision(2) : value.toFixed(0));

const columns = [
  { key: "name", title: "learner", value: (entry) => entry.name, text: (entry) => entry.name },
  { key: "accuracy", title: "% correct (std)", value: (entry) => entry.accuracy, text: (entry) => `${entry.accuracy.toFixed(1)} (${entry.std.toFixed(2)})` },
  { key: "bar", title: "" },
  { key: "learn", title: "learn s", value: (entry) => entry.seconds.learn, text: (entry) => seconds(entry.seconds.learn) },
  { key: "encode", title: "encode s", value: (entry) => entry.seconds.encode, text: (entry) => (entry.seconds.encode ? seconds(entry.seconds.encode) : "") },
  { key: "to_tune", title: "to tune", value: (entry) => entry.n_to_tune, text: (entry) => String(entry.n_to_tune ?? "") },
  { key: "silent", title: "never active", value: (entry) => entry.n_never_active, text: (entry) => (entry.n_units === null ? "" : `${entry.n_never_active} of ${entry.n_units}`) },
];

function barOf(entry) {
  const bar = element("div", { className: /^(epls|prototypes)/i.test(entry.name) ? "ours" : "", style: `width: ${entry.accuracy}%` });
  const from = Math.max(0, entry.accuracy - entry.std);
  const width = (100 * (entry.accuracy + entry.std - from)) / Math.max(entry.accuracy, 1);
  bar.append(element("i", { style: `left: ${(100 * from) / Math.max(entry.accuracy, 1)}%; width: ${width}%` }));
  return bar;
}

function rowOf(entry) {
  const row = element("tr");
  const name = element("button", { type: "button", "aria-expanded": "false" }, entry.name);
  name.addEventListener("keydown", (event) => {
    const next = { ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling }[event.key];
    if (!next) return;
    event.preventDefault();
    next.querySelector("button").focus();
  });
  row.addEventListener("click", () => choose(row, entry));
  row.append(element("td", {}, name));
  if (entry.failed !== null) {
    row.append(element("td", { colSpan: columns.length - 1 }, `failed: ${entry.failed}`));
    return row;
  }
  for (const { key, text } of columns.slice(1)) {
    row.append(key === "bar" ? element("td", { className: "bar" }, barOf(entry)) : element("td", {}, text(entry)));
  }
  return row;
}

const rows = entries.map(rowOf);

function arrange() {
  const { value: valueOf } = columns.find((column) => column.key === sortedBy);
  const value = (number) => valueOf(entries[number]);
  const order = entries.map((_, number) => number).sort((a, b) => {
    if (entries[a].failed !== null || entries[b].failed !== null) return (entries[a].failed !== null) - (entries[b].failed !== null) || a - b;
    const difference = value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0;
    return (descending ? -difference : difference) || a - b;
  });
  body.replaceChildren(...order.map((number) => rows[number]));
  for (const head of heads.cells) {
    head.setAttribute("aria-sort", head.dataset.key === sortedBy ? (descending ? "descending" : "ascending") : "none");
  }
}

function mark(row, chosen) {
  row.classList.toggle("chosen", chosen);
  row.querySelector("button").setAttribute("aria-expanded", String(chosen));
}

function leave() {
  panel.hidden = true;
  for (const row of rows) mark(row, false);
}

function choose(row, entry) {
  for (const other of rows) mark(other, other === row);
  const settings = Object.entries(entry.settings).map(([name, value]) => element("tr", {}, element("td", {}, name), element("td", {}, value)));
  panel.hidden = false;
  const close = element("button", { className: "close", type: "button", "aria-label": "close" }, "\u00d7");
  close.addEventListener("click", leave);
  panel.replaceChildren(
    close,
    element("h2", {}, entry.name),
    ...(entry.filters ? [element("img", { className: "sheet", src: entry.filters, alt: `filters of ${entry.name}` })] : []),
    ...(entry.folds.length ? [element("h3", {}, "Each fold, % correct"), element("p", {}, entry.folds.map((value) => value.toFixed(1)).join(", "))] : []),
    element("h3", {}, "Settings"),
    element("table", {}, ...settings),
  );
  panel.scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") leave();
});

for (const { key, title } of columns) {
  const head = element("th", { scope: "col" });
  head.dataset.key = key;
  if (key !== "bar") {
    const button = element("button", { type: "button" }, title);
    button.addEventListener("click", () => {
      descending = sortedBy === key ? !descending : key === "accuracy";
      sortedBy = key;
      arrange();
    });
    head.append(button);
  }
  heads.append(head);
}
showFacts(content.facts);
arrange();
