// The memory of nodes over a day: a line for each node, darker the more of it is held. With many nodes a line of pixels is
// the mean of several.

import { Axis, clock, tickMarks } from "./axis.js";
import { t } from "./language.js";
import { element, say } from "./text.js";

// As the server has them (../day.py): seconds of a column, columns of a day, and the steps of a share.
const COLUMN = 600;
const COLUMNS = 144;
const STEPS = 20;
const STEP_OF = [];
for (let step = 0; step <= STEPS; step += 1) STEP_OF[step.toString(36).toUpperCase().charCodeAt(0)] = step;
const LEAST_HEIGHT = 22;
const MOST_HEIGHT = 96;
const MOST_LINE = 12;
const APART = 80;

export class DayStrip {
  constructor(root) {
    this.root = root;
    this.canvas = root.querySelector("canvas");
    this.axis = root.querySelector(".axis");
    this.text = root.querySelector("figcaption");
    this.context = this.canvas.getContext("2d");
    this.canvas.addEventListener("pointermove", (event) => {
      this.canvas.title = this.under(event);
    });
  }

  /** Show the days of these nodes; `said` is what the shares are of, such as `held`. Another `version` means other days. */
  show(nodes, days, said, version) {
    const last = Math.floor(Date.now() / 1000 / COLUMN);
    const colors = matchMedia("(prefers-color-scheme: dark)").matches;
    const key = [version, said, last, colors, this.root.clientWidth, ...nodes.map((node) => node.name)].join();
    if (this.key === key) return;
    this.key = key;
    const known = nodes.filter((node) => days.has(node.name));
    this.root.hidden = !known.length;
    if (this.root.hidden) return;
    const lines = Math.min(known.length, MOST_HEIGHT);
    const high = Math.min(MOST_LINE, Math.floor(MOST_HEIGHT / lines), Math.max(1, Math.ceil(LEAST_HEIGHT / lines)) + 6);
    Object.assign(this, { known, last, lines, high, days, said });
    this.means = sums(known, days, last, lines);
    this.canvas.width = COLUMNS;
    this.canvas.height = lines;
    this.canvas.style.height = `${lines * high}px`;
    this.paint();
    this.drawAxis();
    say(this.text, this.summary());
  }

  paint() {
    const image = this.context.createImageData(COLUMNS, this.lines);
    const [red, green, blue] = this.color();
    for (let i = 0; i < this.means.length; i += 1) {
      const share = this.means[i];
      // Nothing held is nearly nothing to see; where nothing is known, nothing is.
      const alpha = Number.isNaN(share) ? 0 : 26 + share * 229;
      image.data.set([red, green, blue, alpha], i * 4);
    }
    this.context.putImageData(image, 0, 0);
  }

  color() {
    const text = getComputedStyle(document.documentElement).getPropertyValue("--slice-a").trim();
    return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
  }

  drawAxis() {
    const width = this.canvas.clientWidth;
    const to = (this.last + 1) * COLUMN;
    const key = `${width} ${to}`;
    if (this.axisKey === key || !width) return;
    this.axisKey = key;
    const made = tickMarks(new Axis(to - COLUMNS * COLUMN, to, width), APART, (name, x, text) => {
      const mark = element("span", name, text);
      mark.style.left = `${(x / width) * 100}%`;
      return mark;
    });
    this.axis.replaceChildren(...made);
  }

  /** The mean over the shown nodes, as a sentence. */
  summary() {
    let from = COLUMNS;
    const columns = Array.from({ length: COLUMNS }, (_, column) => {
      const shares = [];
      for (let line = 0; line < this.lines; line += 1) shares.push(this.means[line * COLUMNS + column]);
      const found = shares.filter((share) => !Number.isNaN(share));
      if (found.length) from = Math.min(from, column);
      return mean(found);
    });
    const since = this.last - COLUMNS + 1 + from;
    const day = mean(columns.filter((share) => !Number.isNaN(share)));
    const values = { now: percent(columns.at(-1)), mean: percent(day), since: clock(since * COLUMN) };
    return t("day", { said: t(this.said), ...values });
  }

  under(event) {
    const column = Math.floor((event.offsetX / this.canvas.clientWidth) * COLUMNS);
    const line = Math.min(this.lines - 1, Math.floor(event.offsetY / this.high));
    const [first, end] = [0, 1].map((more) => Math.ceil(((line + more) * this.known.length) / this.lines));
    const names = end - first > 1 ? t("range", { first: this.known[first].name, last: this.known[end - 1].name }) : this.known[first]?.name;
    const time = clock((this.last - COLUMNS + 1 + column) * COLUMN);
    return t("day-point", { names: names ?? "", time, share: percent(this.means[line * COLUMNS + column]), said: t(this.said) });
  }
}

/** The mean share of each line in each column; NaN where nothing is known. */
function sums(known, days, last, lines) {
  const total = new Float64Array(lines * COLUMNS);
  const number = new Float64Array(lines * COLUMNS);
  known.forEach((node, i) => {
    const line = Math.floor((i * lines) / known.length);
    const { last: end, levels } = days.get(node.name);
    for (let c = 0; c < levels.length; c += 1) {
      const column = COLUMNS - 1 - (last - end) - (levels.length - 1 - c);
      const step = STEP_OF[levels.charCodeAt(c)];
      if (column < 0 || column >= COLUMNS || step === undefined) continue;
      total[line * COLUMNS + column] += step / STEPS;
      number[line * COLUMNS + column] += 1;
    }
  });
  return total.map((sum, i) => (number[i] ? sum / number[i] : NaN));
}

function mean(values) {
  return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : NaN;
}

function percent(share) {
  return Number.isNaN(share) ? t("not-known") : `${Math.round(share * 100)} %`;
}
