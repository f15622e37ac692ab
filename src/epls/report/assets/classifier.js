// Predictions from a few labels, for all samples. Numbers in, numbers out: nothing here knows of the page.
//
// Rows have mean 0 and a mean squared length of 1. A ridge regression without intercept predicts 1 - 1/K for the class of
// a sample and -1/K for the others. Scores times a sharpness are logits. Penalty and sharpness are those that make the
// labels most probable when each is left out, which a ridge regression tells without learning again. With few labels
// both stay close to what is usual.
const PENALTIES = [-3, -2, -1, 0, 1, 2, 3].map((power) => 4 ** power); // times the mean squared length of a row
const USUAL_SHARPNESS = 12;
const SHARPNESS = [1, 100];
const MOST_LEFT_OUT = 250; // to choose penalty and sharpness by
const POOL = 700; // samples to propose some of
const MOST_NEW = 250; // labelled samples to compare with them at a time

function rowsOf({ values, scales }) {
  const [n, d] = [values.length / scales.length, scales.length];
  const rows = new Float32Array(values.length);
  let sum = 0;
  for (let k = 0; k < values.length; k++) {
    rows[k] = values[k] * scales[k % d];
    sum += rows[k] * rows[k];
  }
  const scale = sum > 0 ? 1 / Math.sqrt(sum / n) : 0;
  for (let k = 0; k < rows.length; k++) rows[k] *= scale;
  return { rows, n, d };
}

// The lower factor of a symmetric positive matrix plus a multiple of the identity.
function cholesky(matrix, d, added) {
  const factor = new Float64Array(d * d);
  for (let i = 0; i < d; i++) {
    for (let j = 0; j <= i; j++) {
      let sum = matrix[i * d + j] + (i === j ? added : 0);
      for (let k = 0; k < j; k++) sum -= factor[i * d + k] * factor[j * d + k];
      factor[i * d + j] = i === j ? Math.sqrt(sum) : sum / factor[j * d + j];
    }
  }
  return factor;
}

// Solve L z = x in place; then, if asked, L' y = z.
function solve(factor, d, x, both) {
  for (let i = 0; i < d; i++) {
    let sum = x[i];
    for (let k = 0; k < i; k++) sum -= factor[i * d + k] * x[k];
    x[i] = sum / factor[i * d + i];
  }
  for (let i = d - 1; both && i >= 0; i--) {
    let sum = x[i];
    for (let k = i + 1; k < d; k++) sum -= factor[k * d + i] * x[k];
    x[i] = sum / factor[i * d + i];
  }
}

function scoresOf({ rows, d }, sample, weights, nClasses, scores) {
  scores.fill(0);
  for (let j = 0; j < d; j++) {
    const value = rows[sample * d + j];
    for (let c = 0; c < nClasses; c++) scores[c] += value * weights[j * nClasses + c];
  }
}

// Scores of labelled samples by what is learned from all others.
function leftOut(data, samples, classOf, nClasses, factor, weights) {
  const { rows, d } = data;
  const all = new Float64Array(samples.length * nClasses);
  const x = new Float64Array(d);
  samples.forEach((sample, i) => {
    const own = all.subarray(i * nClasses, (i + 1) * nClasses);
    scoresOf(data, sample, weights, nClasses, own);
    for (let j = 0; j < d; j++) x[j] = rows[sample * d + j];
    solve(factor, d, x, false);
    let leverage = 0;
    for (let j = 0; j < d; j++) leverage += x[j] * x[j];
    leverage = Math.min(leverage, 0.999999);
    for (let c = 0; c < nClasses; c++) {
      const target = (c === classOf[sample] ? 1 : 0) - 1 / nClasses;
      own[c] = (own[c] - leverage * target) / (1 - leverage);
    }
  });
  return all;
}

// Minus the logarithm of the probability of the right classes, and of the sharpness itself.
function costOf(logarithm, scores, right, nClasses) {
  const sharpness = Math.exp(logarithm);
  let cost = (logarithm - Math.log(USUAL_SHARPNESS)) ** 2 / 2;
  for (let i = 0; i < right.length; i++) {
    const at = i * nClasses;
    let sum = 0;
    for (let c = 0; c < nClasses; c++) sum += Math.exp(sharpness * (scores[at + c] - scores[at + right[i]]));
    cost += Math.log(sum);
  }
  return cost;
}

function bestSharpness(scores, right, nClasses) {
  let [low, high] = SHARPNESS.map(Math.log);
  const part = (Math.sqrt(5) - 1) / 2;
  let [left, after] = [high - part * (high - low), low + part * (high - low)];
  let [first, second] = [left, after].map((at) => costOf(at, scores, right, nClasses));
  for (let step = 0; step < 9; step++) {
    if (first < second) {
      [high, after, second] = [after, left, first];
      left = high - part * (high - low);
      first = costOf(left, scores, right, nClasses);
    } else {
      [low, left, first] = [left, after, second];
      after = low + part * (high - low);
      second = costOf(after, scores, right, nClasses);
    }
  }
  return first < second ? [left, first] : [after, second];
}

// classOf has the class of each sample, from 0, or -1 if it is unknown.
function learn(data, classOf, nClasses) {
  const { rows, n, d } = data;
  const known = [];
  const counts = new Array(nClasses).fill(0);
  for (let sample = 0; sample < n; sample++) {
    if (classOf[sample] < 0) continue;
    known.push(sample);
    counts[classOf[sample]] += 1;
  }
  const products = new Float64Array(d * d);
  const sums = new Float64Array(d * nClasses);
  for (const sample of known) {
    for (let i = 0; i < d; i++) {
      const value = rows[sample * d + i];
      for (let j = 0; j <= i; j++) products[i * d + j] += value * rows[sample * d + j];
      for (let c = 0; c < nClasses; c++) sums[i * nClasses + c] -= value / nClasses;
      sums[i * nClasses + classOf[sample]] += value;
    }
  }
  // A class with a single label has none left to be predicted from.
  const step = Math.max(1, known.length / MOST_LEFT_OUT);
  const tried = known.filter((sample, k) => Math.floor(k / step) !== Math.floor((k - 1) / step) && counts[classOf[sample]] > 1);
  const right = tried.map((sample) => classOf[sample]);
  const column = new Float64Array(d);
  let best = null;
  for (const penalty of PENALTIES) {
    const factor = cholesky(products, d, penalty);
    const weights = new Float64Array(d * nClasses);
    for (let c = 0; c < nClasses; c++) {
      for (let i = 0; i < d; i++) column[i] = sums[i * nClasses + c];
      solve(factor, d, column, true);
      for (let i = 0; i < d; i++) weights[i * nClasses + c] = column[i];
    }
    const [logarithm, loss] = bestSharpness(leftOut(data, tried, classOf, nClasses, factor, weights), right, nClasses);
    const cost = loss + Math.log(penalty) ** 2 / 2;
    if (best === null || cost < best.cost) best = { cost, penalty, factor, weights, sharpness: Math.exp(logarithm) };
  }
  const scores = leftOut(data, known, classOf, nClasses, best.factor, best.weights);
  const rightAlone = new Uint8Array(n); // the labelled samples that are predicted correctly when they are left out
  known.forEach((sample, i) => { rightAlone[sample] = Number(largest(scores, i * nClasses, nClasses) === classOf[sample]); });
  return { ...best, nClasses, known, rightAlone };
}

function largest(values, from, many) {
  let best = 0;
  for (let k = 1; k < many; k++) if (values[from + k] > values[from + best]) best = k;
  return best;
}

// The most probable class of each sample, its probability, and how much more probable it is than the next one.
function predict(data, { weights, sharpness, nClasses }) {
  const [label, confidence, margin] = [new Int16Array(data.n), new Float32Array(data.n), new Float32Array(data.n)];
  const scores = new Float64Array(nClasses);
  for (let sample = 0; sample < data.n; sample++) {
    scoresOf(data, sample, weights, nClasses, scores);
    const best = largest(scores, 0, nClasses);
    let sum = 0, second = 0;
    for (let c = 0; c < nClasses; c++) {
      const odds = Math.exp(sharpness * (scores[c] - scores[best]));
      sum += odds;
      if (c !== best && odds > second) second = odds;
    }
    [label[sample], confidence[sample], margin[sample]] = [best, 1 / sum, (1 - second) / sum];
  }
  return { label, confidence, margin };
}

// The share of some labelled samples that are predicted correctly when they are left out, with Wilson's 95 % interval.
// What is learned without each of them is much the same, so they count for fewer: the rule of Nadeau and Bengio (2003),
// as in few_labels.py. Only samples that were drawn at random tell what to expect of the others.
function accuracyOf({ known, rightAlone }, samples) {
  const many = samples.length;
  const [share, n, z] = [samples.reduce((sum, sample) => sum + rightAlone[sample], 0) / many, many / (1 + many / (known.length - 1)), 1.959964];
  const half = z * Math.sqrt((share * (1 - share)) / n + (z / n) ** 2 / 4);
  const [low, high] = [-1, 1].map((side) => (share + z ** 2 / (2 * n) + side * half) / (1 + z ** 2 / n));
  return { share, low, high, many };
}

// Samples whose labels help most: together they resemble as many doubtful samples as possible, more than any labelled
// one does (the greedy solution of a facility location problem with squared cosines). Doubts are one minus margins.
function newProposer(data, order) {
  const { rows, d } = data;
  let pool, alike, best, seen, block = -1;
  const unit = (sample) => {
    const row = Array.from(rows.subarray(sample * d, (sample + 1) * d));
    const length = Math.hypot(...row) || 1;
    return row.map((value) => value / length);
  };
  const cosine = (one, units, at) => {
    let sum = 0;
    for (let j = 0; j < d; j++) sum += one[j] * units[at * d + j];
    return Math.max(sum, 0) ** 2;
  };
  let units;
  function fill(classOf) {
    do {
      block += 1;
      pool = order.subarray(block * POOL, (block + 1) * POOL);
    } while (pool.length === POOL && pool.every((sample) => classOf[sample] >= 0));
    units = new Float32Array(pool.length * d);
    pool.forEach((sample, k) => units.set(unit(sample), k * d));
    alike = new Float32Array(pool.length ** 2);
    for (let i = 0; i < pool.length; i++) {
      const own = units.subarray(i * d, (i + 1) * d);
      for (let j = 0; j <= i; j++) alike[i * pool.length + j] = alike[j * pool.length + i] = cosine(own, units, j);
    }
    [best, seen] = [new Float32Array(pool.length), new Set()];
  }
  return (classOf, doubt, many) => {
    if (block < 0 || !pool.some((sample) => classOf[sample] < 0)) fill(classOf);
    if ([...seen].some((sample) => classOf[sample] < 0)) [best, seen] = [new Float32Array(pool.length), new Set()]; // undone
    for (let sample = 0, fresh = 0; sample < data.n && fresh < MOST_NEW; sample++) {
      if (classOf[sample] < 0 || seen.has(sample)) continue;
      seen.add(sample);
      fresh += 1;
      const own = unit(sample);
      for (let j = 0; j < pool.length; j++) best[j] = Math.max(best[j], cosine(own, units, j));
    }
    const covered = Float32Array.from(best);
    const found = [];
    const size = pool.length;
    while (found.length < many) {
      let chosen = -1, most = -1;
      for (let i = 0; i < size; i++) {
        if (classOf[pool[i]] >= 0 || found.includes(pool[i])) continue;
        let gain = 0;
        for (let j = 0; j < size; j++) {
          const more = alike[i * size + j] - covered[j];
          if (more > 0) gain += more * (doubt ? doubt[pool[j]] : 1);
        }
        if (gain > most) [chosen, most] = [i, gain];
      }
      if (chosen < 0) break;
      found.push(pool[chosen]);
      for (let j = 0; j < size; j++) covered[j] = Math.max(covered[j], alike[chosen * size + j]);
    }
    return found;
  };
}
