// The map: all samples on a canvas, to move, zoom and choose from. Samples are identified by their numbers.
function unpacked(text, Kind) {
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let k = 0; k < bytes.length; k++) bytes[k] = characters.charCodeAt(k);
  return new Kind(bytes.buffer);
}

const count = content.count;
const isImages = content.kind === "images";
const groupOf = unpacked(content.group, Int16Array);
const canvas = byId("map");
const pen = canvas.getContext("2d", { alpha: false });
const places = { map: mapPlaces(), grid: gridPlaces() };
const sizes = isImages ? unpacked(content.sizes, Uint8Array) : null;
const meanColors = isImages ? unpacked(content.colors, Uint8Array) : null;
const bitmaps = []; // decoded sheets
const MOST_PICTURES = 3000; // in a frame: drawing more would take longer than a sixtieth of a second
const SMALLEST_PICTURE = 8; // pixels; smaller ones are drawn as dots of their color
const PALE = 0.16;
const MOST_STRETCH = 0.6;

const state = {
  chosen: -1, // the sample whose neighbours are shown
  selected: new Uint8Array(count),
  layout: "map",
  tool: "move",
  colorBy: "group",
  only: null, // a Uint8Array of the samples that are not drawn pale, or null for all
  center: [0.5, 0.5],
  zoom: 1,
};
let place = Float32Array.from(places.map); // current positions of samples, also while they move
let width = 1, height = 1, ratio = 1; // of the canvas in CSS pixels, and device pixels in each
let scale = [1, 1];
let stretch = 1; // 0 for a grid
let frame = 0;
let pixels = null; // of the canvas, to draw dots in
let path = null; // the lasso or rectangle being drawn, in CSS pixels
let colors; // a color for each sample, as bytes in the canvas's order
let strengths; // of these colors

function mapPlaces() {
  return Float32Array.from(unpacked(content.positions, Uint16Array), (value) => value / 65535);
}

function gridPlaces() {
  return Float32Array.from(unpacked(content.cells, Uint16Array), (value) => (value + 0.5) / content.cellsAcross);
}

// Samples in random order: if only some can be drawn, they come from all parts of the map.
const order = Uint32Array.from({ length: count }, (_, k) => k);
for (let k = count - 1, seed = 1; k > 0; k--) {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  const other = Math.floor((seed / 2 ** 32) * (k + 1));
  [order[k], order[other]] = [order[other], order[k]];
}

const hueOf = (number) => (number * 137.508 + 205) % 360;
function byHue(number, saturation = 0.62, lightness = 0.55) {
  if (number < 0) return [140, 140, 145];
  const hue = hueOf(number) / 30;
  const span = saturation * Math.min(lightness, 1 - lightness);
  return [0, 8, 4].map((shift) => {
    const at = (shift + hue) % 12;
    return Math.round(255 * (lightness - span * Math.max(-1, Math.min(at - 3, 9 - at, 1))));
  });
}
const cssColor = ([red, green, blue]) => `rgb(${red}, ${green}, ${blue})`;

// The color of a sample, and how strong it is, from 0 to 1. Labels can change, so explore.js sets both.
let colorOf = (sample) => byHue(groupOf[sample]);
let strengthOf = () => 1;
let isMarked = () => false; // by a wider edge
function recolor() {
  colors = new Uint8Array(3 * count);
  strengths = new Float32Array(count);
  for (let k = 0; k < count; k++) {
    colors.set(colorOf(k), 3 * k);
    strengths[k] = strengthOf(k);
  }
  redraw();
}

// Pixels across and down for the whole map, which may be stretched to fill the screen; a grid may not. Around a map is
// room for half of a picture, so that none is cut off.
function updateScale() {
  const side = Math.min(width, height);
  const whole = [width, height].map((length) => side * (1 + stretch * Math.min(length / side - 1, MOST_STRETCH)));
  const room = stretch * Math.min(mapPicture(whole, 1) + 8, side / 3);
  scale = whole.map((length) => state.zoom * (length - room));
}
const toScreen = (sample) => [
  width / 2 + (place[2 * sample] - state.center[0]) * scale[0],
  height / 2 + (place[2 * sample + 1] - state.center[1]) * scale[1],
];
const toWorld = ([x, y]) => [state.center[0] + (x - width / 2) / scale[0], state.center[1] + (y - height / 2) / scale[1]];

// Height and width of a sample on the screen. On the map, pictures grow more slowly than distances, so that zooming in separates them.
function pictureSize() {
  if (isImages && state.layout === "grid") return 0.94 * (Math.min(width, height) / content.cellsAcross) * state.zoom;
  return mapPicture(scale.map((length) => length / state.zoom), state.zoom);
}
function mapPicture([across, down], zoom) {
  const fair = Math.sqrt((across * down) / count);
  if (!isImages) return Math.max(5, Math.min(12, 0.35 * fair * Math.sqrt(zoom)));
  return Math.max(4, Math.min(1.6 * content.side, 0.75 * fair * zoom ** 0.7));
}

function redraw() {
  if (!frame) frame = requestAnimationFrame(draw);
}

function fitCanvas() {
  const box = canvas.getBoundingClientRect();
  ratio = Math.min(devicePixelRatio || 1, 2);
  [width, height] = [Math.max(box.width, 1), Math.max(box.height, 1)];
  const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width === across && canvas.height === down) return;
  [canvas.width, canvas.height] = [across, down];
  pixels = null;
}

function visible(margin) {
  const [left, top] = toWorld([-margin, -margin]);
  const [right, bottom] = toWorld([width + margin, height + margin]);
  const found = [];
  for (const sample of order) {
    const [x, y] = [place[2 * sample], place[2 * sample + 1]];
    if (x > left && y > top && x < right && y < bottom) found.push(sample);
  }
  return found;
}

function draw() {
  frame = 0;
  fitCanvas();
  updateScale();
  const style = getComputedStyle(document.documentElement);
  const ground = style.getPropertyValue("--card").trim();
  const mark = style.getPropertyValue("--mark").trim();
  const size = pictureSize();
  const samples = visible(size);
  pen.setTransform(1, 0, 0, 1, 0, 0);
  pen.fillStyle = ground;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  if (state.only) samples.sort((a, b) => state.only[a] - state.only[b]); // pale ones below
  const few = samples.length <= MOST_PICTURES || size >= 2 * SMALLEST_PICTURE;
  const asPictures = isImages && few && size >= SMALLEST_PICTURE && bitmaps.length > 0;
  const nDots = asPictures ? Math.max(0, samples.length - MOST_PICTURES) : samples.length;
  const [dots, shown] = [samples.slice(0, nDots), samples.slice(nDots)];
  if (!isImages && dots.length <= 4000) drawDiscs(dots, size);
  else if (dots.length) drawDots(dots, Math.min(size, SMALLEST_PICTURE), groundColor());
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  drawPictures(shown, size, mark);
  drawMarks(samples, size, mark, asPictures);
  if (path) drawPath(mark);
}

const groundColor = () => getComputedStyle(canvas.parentElement).backgroundColor.match(/\d+/g).map(Number);
const isPale = (sample) => state.only !== null && !state.only[sample];

function drawDiscs(samples, size) {
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  for (const sample of samples) {
    const [x, y] = toScreen(sample);
    pen.globalAlpha = isPale(sample) ? PALE : 0.9 * Math.max(strengths[sample], 0.25);
    pen.fillStyle = cssColor(colors.subarray(3 * sample, 3 * sample + 3));
    pen.beginPath();
    pen.arc(x, y, isMarked(sample) ? 0.8 * size : size / 2, 0, 7);
    pen.fill();
  }
  pen.globalAlpha = 1;
}

// Written directly to the pixels: tens of thousands of dots in a few milliseconds.
function drawDots(samples, size, ground) {
  const [across, down] = [canvas.width, canvas.height];
  if (pixels === null) pixels = pen.createImageData(across, down);
  const words = new Uint32Array(pixels.data.buffer);
  words.fill((255 << 24) | (ground[2] << 16) | (ground[1] << 8) | ground[0]);
  const side = Math.max(2, Math.round(size * ratio));
  for (const sample of samples) {
    const x = Math.round((width / 2 + (place[2 * sample] - state.center[0]) * scale[0]) * ratio - side / 2);
    const y = Math.round((height / 2 + (place[2 * sample + 1] - state.center[1]) * scale[1]) * ratio - side / 2);
    const left = Math.max(0, x), right = Math.min(across, x + side);
    const top = Math.max(0, y), bottom = Math.min(down, y + side);
    const part = isPale(sample) ? PALE : Math.max(strengths[sample], 0.25);
    const blend = (k) => part * colors[3 * sample + k] + (1 - part) * ground[k];
    const word = (255 << 24) | (blend(2) << 16) | (blend(1) << 8) | blend(0);
    for (let row = top; row < bottom; row++) for (let at = row * across + left; at < row * across + right; at++) words[at] = word;
  }
  pen.putImageData(pixels, 0, 0);
}

// The position of a sample's picture in its sheet, and its shape at a given size on the screen.
function pictureOf(sample) {
  const number = sample % content.perSheet;
  const column = number % content.across;
  return {
    sheet: (sample - number) / content.perSheet,
    left: column * content.side,
    top: ((number - column) / content.across) * content.side,
    width: sizes[2 * sample],
    height: sizes[2 * sample + 1],
  };
}

function drawPictures(samples, size, mark) {
  pen.imageSmoothingEnabled = true;
  for (const sample of samples) {
    const picture = pictureOf(sample);
    const bitmap = bitmaps[picture.sheet];
    if (!bitmap) continue;
    const [x, y] = toScreen(sample);
    const larger = size / Math.max(picture.width, picture.height);
    const [across, down] = [picture.width * larger, picture.height * larger];
    pen.globalAlpha = isPale(sample) ? PALE : 1;
    const edge = state.colorBy === "own" ? 0 : Math.min(3, size / 12) * (isMarked(sample) ? 2 : 1);
    if (edge) {
      const opacity = pen.globalAlpha;
      pen.globalAlpha *= strengths[sample];
      pen.fillStyle = cssColor(colors.subarray(3 * sample, 3 * sample + 3));
      pen.fillRect(x - across / 2 - edge, y - down / 2 - edge, across + 2 * edge, down + 2 * edge);
      pen.globalAlpha = opacity;
    }
    pen.drawImage(bitmap, picture.left, picture.top, picture.width, picture.height, x - across / 2, y - down / 2, across, down);
  }
  pen.globalAlpha = 1;
}

function drawMarks(samples, size, mark, asPictures) {
  pen.strokeStyle = mark;
  for (const sample of samples) {
    if (!state.selected[sample] && sample !== state.chosen) continue;
    const [x, y] = toScreen(sample);
    const isChosen = sample === state.chosen;
    const side = Math.max(size, 4) + (isChosen ? 8 : 3);
    pen.lineWidth = isChosen ? 4 : 2;
    if (isChosen && asPictures) drawPictures([sample], size, mark); // above its neighbours
    pen.strokeRect(x - side / 2, y - side / 2, side, side);
  }
}

function drawPath(mark) {
  pen.lineWidth = 2;
  pen.strokeStyle = mark;
  pen.setLineDash([6, 4]);
  pen.beginPath();
  for (const point of path) pen.lineTo(...point);
  pen.closePath();
  pen.stroke();
  pen.setLineDash([]);
  pen.globalAlpha = 0.12;
  pen.fillStyle = mark;
  pen.fill();
  pen.globalAlpha = 1;
}

function sampleAt([x, y]) {
  const reach = Math.max(pictureSize() / 2, 8);
  let best = -1, least = Infinity;
  for (let sample = 0; sample < count; sample++) {
    const [left, top] = toScreen(sample);
    const [across, down] = [Math.abs(left - x), Math.abs(top - y)];
    if (across > reach || down > reach || across + down >= least) continue;
    [best, least] = [sample, across + down];
  }
  return best;
}

function samplesInside(polygon) {
  const found = [];
  for (let sample = 0; sample < count; sample++) {
    const [x, y] = toScreen(sample);
    let inside = false;
    for (let k = 0, before = polygon.length - 1; k < polygon.length; before = k++) {
      const [[x1, y1], [x2, y2]] = [polygon[k], polygon[before]];
      if (y1 > y !== y2 > y && x < ((x2 - x1) * (y - y1)) / (y2 - y1) + x1) inside = !inside;
    }
    if (inside) found.push(sample);
  }
  return found;
}

const largestZoom = () => Math.max(8, Math.sqrt(count));
function zoomBy(factor, at = [width / 2, height / 2]) {
  const before = toWorld(at);
  state.zoom = Math.max(0.5, Math.min(largestZoom(), state.zoom * factor));
  updateScale();
  const after = toWorld(at);
  moveTo([state.center[0] + before[0] - after[0], state.center[1] + before[1] - after[1]]);
}

function moveTo([x, y]) {
  state.center = [Math.max(0, Math.min(1, x)), Math.max(0, Math.min(1, y))];
  redraw();
}

// In steps, unless the reader's system asks for less motion.
function animate(step) {
  const started = performance.now();
  const duration = matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : 350;
  const next = (now) => {
    const done = duration ? Math.max(0, Math.min(1, (now - started) / duration)) : 1;
    step(done * done * (3 - 2 * done));
    redraw();
    if (done < 1) requestAnimationFrame(next);
  };
  next(started);
}

function flyTo(center, zoom) {
  const [[x, y], from] = [state.center, state.zoom];
  animate((part) => {
    state.center = [x + part * (center[0] - x), y + part * (center[1] - y)];
    state.zoom = from * (zoom / from) ** part;
  });
}

const showAll = () => flyTo([0.5, 0.5], 1);

function flyToSamples(samples) {
  const at = (axis) => samples.map((sample) => places[state.layout][2 * sample + axis]).sort((a, b) => a - b);
  const [across, down] = [at(0), at(1)];
  const middle = (values) => (values[0] + values[values.length - 1]) / 2;
  const span = Math.max(across[across.length - 1] - across[0], down[down.length - 1] - down[0], 0.02);
  flyTo([middle(across), middle(down)], Math.max(1, Math.min(largestZoom(), 0.8 / span)));
}

function arrangeAs(layout) {
  const [from, to] = [place, places[layout]];
  const between = new Float32Array(to.length);
  const [before, after] = [stretch, layout === "map" ? 1 : 0];
  state.layout = layout;
  animate((part) => {
    stretch = before + part * (after - before);
    for (let k = 0; k < to.length; k++) between[k] = from[k] + part * (to[k] - from[k]);
    place = part === 1 ? to : between;
  });
}

// The nearest sample in a direction, seen from another one.
function sampleTowards(sample, [across, down]) {
  const [x, y] = [place[2 * sample], place[2 * sample + 1]];
  let best = -1, least = Infinity;
  for (let other = 0; other < count; other++) {
    const [right, below] = [place[2 * other] - x, place[2 * other + 1] - y];
    const ahead = right * across + below * down;
    const aside = Math.abs(right * down) + Math.abs(below * across);
    if (other === sample || ahead <= 0 || aside > ahead) continue;
    if (ahead + 2 * aside < least) [best, least] = [other, ahead + 2 * aside];
  }
  return best;
}

// Sheets are decoded in another thread, and shown one by one when they are ready.
async function decodeSheets() {
  for (const [number, url] of (content.sheets ?? []).entries()) {
    const bytes = unpacked(url.slice(url.indexOf(",") + 1), Uint8Array);
    const blob = new Blob([bytes], { type: "image/jpeg" });
    document.head.append(element("style", {}, `.sheet-${number} { background-image: url(${URL.createObjectURL(blob)}); }`));
    bitmaps[number] = await createImageBitmap(blob);
    content.sheets[number] = null;
    redraw();
  }
  document.body.dataset.ready = "true";
}
