// Mouse, touch and keyboard on the map.
const pointers = new Map(); // the position of each finger or the mouse
let moved = 0; // pixels since the first pointer came down
let between = 0; // pixels between two fingers

const pointOf = (event) => {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
};
const middleOf = () => {
  const all = [...pointers.values()];
  return [0, 1].map((axis) => all.reduce((sum, point) => sum + point[axis], 0) / all.length);
};
const spreadOf = () => {
  const [first, second] = [...pointers.values()];
  return Math.hypot(first[0] - second[0], first[1] - second[1]);
};

canvas.addEventListener("pointerdown", (event) => {
  if (event.button !== 0) return;
  canvas.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, pointOf(event));
  byId("hover").hidden = true;
  if (pointers.size === 2) {
    path = null;
    between = spreadOf();
  } else if (pointers.size === 1) {
    moved = 0;
    path = state.tool !== "move" || event.shiftKey ? [pointOf(event)] : null;
  }
});

canvas.addEventListener("pointermove", (event) => {
  if (!pointers.has(event.pointerId)) {
    if (event.pointerType === "mouse") hoverAt(pointOf(event));
    return;
  }
  const before = middleOf();
  const last = pointers.get(event.pointerId);
  const now = pointOf(event);
  pointers.set(event.pointerId, now);
  moved += Math.hypot(now[0] - last[0], now[1] - last[1]);
  if (path) {
    const [first] = path;
    path = state.tool === "box" ? [first, [now[0], first[1]], now, [first[0], now[1]]] : [...path, now];
    redraw();
    return;
  }
  canvas.classList.add("moving");
  const after = middleOf();
  moveTo([state.center[0] - (after[0] - before[0]) / scale[0], state.center[1] - (after[1] - before[1]) / scale[1]]);
  if (pointers.size === 2) {
    zoomBy(spreadOf() / Math.max(between, 1), after);
    between = spreadOf();
  }
});

function released(event) {
  if (!pointers.delete(event.pointerId)) return;
  canvas.classList.remove("moving");
  if (pointers.size > 0 || event.type === "pointercancel") {
    path = null;
    redraw();
    return;
  }
  const drawn = path;
  path = null;
  redraw();
  if (moved > 6) {
    if (drawn) select(samplesInside(drawn), { add: event.ctrlKey || event.metaKey });
    return;
  }
  const sample = sampleAt(pointOf(event));
  if (sample < 0) return;
  if (event.ctrlKey || event.metaKey || event.shiftKey) toggle(sample);
  else choose(sample);
}
canvas.addEventListener("pointerup", released);
canvas.addEventListener("pointercancel", released);
canvas.addEventListener("pointerleave", () => { byId("hover").hidden = true; });

canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  byId("hover").hidden = true;
  zoomBy(Math.exp(-Math.max(-120, Math.min(120, event.deltaY)) / (event.ctrlKey ? 100 : 400)), pointOf(event));
}, { passive: false });

function hoverAt(point) {
  const sample = sampleAt(point);
  const card = byId("hover");
  card.hidden = sample < 0;
  if (sample < 0) return;
  if (card.dataset.sample !== String(sample)) {
    card.dataset.sample = sample;
    const label = labelOf(sample) && element("div", { className: "explanation" }, classSwatch(numberOfLabel(sample)), toldLabel(sample));
    card.replaceChildren(...(isImages ? [thumb(sample, 150, "div")] : []), element("div", {}, nameOf(sample)), ...(label ? [label] : []));
  }
  card.style.left = `${Math.max(0, Math.min(point[0] + 16, width - card.offsetWidth - 4))}px`;
  card.style.top = `${Math.max(0, point[1] + 16 + card.offsetHeight > height ? point[1] - card.offsetHeight - 10 : point[1] + 16)}px`;
}

const DIRECTIONS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
canvas.addEventListener("keydown", (event) => {
  const step = DIRECTIONS[event.key];
  if (step && event.shiftKey) moveTo([state.center[0] + (0.15 * step[0]) / state.zoom, state.center[1] + (0.15 * step[1]) / state.zoom]);
  else if (step) {
    const next = state.chosen < 0 ? sampleNearCenter() : sampleTowards(state.chosen, step);
    if (next >= 0) choose(next, true);
  } else if (event.key === "+" || event.key === "=") zoomBy(1.5);
  else if (event.key === "-") zoomBy(1 / 1.5);
  else if (event.key === "0") showAll();
  else if (event.key === " " && state.chosen >= 0) toggle(state.chosen);
  else if (event.key === "Enter" && state.chosen >= 0) byId("panel").focus();
  else return;
  event.preventDefault();
});

function sampleNearCenter() {
  let best = -1, least = Infinity;
  for (let sample = 0; sample < count; sample++) {
    const away = Math.hypot(place[2 * sample] - state.center[0], place[2 * sample + 1] - state.center[1]);
    if (away < least) [best, least] = [sample, away];
  }
  return best;
}

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  if (path) { path = null; redraw(); }
  else if (selection().length) select([], { open: false });
  else if (state.only) showOnly(onlyGroup);
  else { state.chosen = -1; redraw(); }
  refresh();
});

addEventListener("beforeunload", (event) => { if (unsaved) event.preventDefault(); });
new ResizeObserver(redraw).observe(canvas);
new MutationObserver(redraw).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

addTabs();
if (content.units) document.head.append(element("style", {}, `.filter { background-image: url(${content.units.url}); }`));
begin();
if (nGiven() || content.labels) state.colorBy = byId("color").value = "label";
colorAgain();
showTab("groups");
decodeSheets();
