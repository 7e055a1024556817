// All cards at a glance: a cell for each, deeper the less room it has. Nodes stand side by side, each a column of its cards.

import { PIECE } from "./turn.js";

const MOST_HEIGHT = 190;
const MOST_CELL = 18;
// Columns that are painted one by one; more are painted with the whole.
const MOST_COLUMNS = 100;

export class CardMap {
  /** `choose(name)` is called with the node that somebody clicks on. */
  constructor(canvas, choose) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.nodes = [];
    // The node of each column whose pixels are set.
    this.drawn = [];
    // The timer of the next piece of work.
    this.late = 0;
    canvas.addEventListener("click", (event) => {
      const node = this.under(event);
      if (node) choose(node.name);
    });
    canvas.addEventListener("mousemove", (event) => {
      canvas.title = this.under(event)?.name ?? "";
    });
  }

  /** Show these nodes. Only columns that changed are drawn, and what takes longer than a piece is left for the next one. */
  show(nodes) {
    const end = performance.now() + PIECE;
    this.nodes = nodes;
    const width = this.canvas.clientWidth;
    if (!width) return;
    const palette = colors();
    this.lay(nodes, width, palette.key);
    const changed = [];
    for (let i = 0; i < nodes.length && !this.late; i += 1) {
      if (nodes[i] === this.drawn[i]) continue;
      this.column(i, palette);
      this.drawn[i] = nodes[i];
      changed.push(i);
      if (performance.now() > end) this.rest();
    }
    if (this.empty) {
      // What was drawn before stays in sight until the whole is there.
      if (!this.late) this.resize();
    } else if (changed.length > MOST_COLUMNS) {
      this.context.putImageData(this.image, 0, 0);
    } else {
      for (const i of changed) {
        this.context.putImageData(this.image, 0, 0, this.left(i), this.top(i), this.step, this.deep);
      }
    }
  }

  rest() {
    this.late = setTimeout(() => {
      this.late = 0;
      this.show(this.nodes);
    });
  }

  resize() {
    this.empty = false;
    this.canvas.width = this.image.width;
    this.canvas.height = this.image.height;
    this.canvas.style.height = `${this.image.height / (devicePixelRatio || 1)}px`;
    this.context.putImageData(this.image, 0, 0);
  }

  /** Choose the largest cell with which all nodes fit the height. Of another layout nothing is drawn yet. */
  lay(nodes, width, key) {
    const scale = devicePixelRatio || 1;
    const wide = Math.floor(width * scale);
    const rows = Math.min(16, Math.max(1, ...nodes.map((node) => node.cards.length)));
    const wanted = [nodes.length, wide, rows, key].join();
    if (this.laid === wanted) return;
    this.laid = wanted;
    this.rows = rows;
    for (this.cell = Math.floor(MOST_CELL * scale); ; this.cell -= 1) {
      this.step = this.cell + gap(this.cell);
      this.across = Math.max(1, Math.floor(wide / this.step));
      this.deep = rows * this.cell + 2 * gap(this.cell) + 1;
      this.lines = Math.max(1, Math.ceil(nodes.length / this.across));
      if (this.cell === 1 || this.lines * this.deep <= MOST_HEIGHT * scale) break;
    }
    this.image = this.context.createImageData(wide, this.lines * this.deep);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.drawn = [];
    this.empty = true;
  }

  left(i) {
    return (i % this.across) * this.step;
  }

  top(i) {
    return Math.floor(i / this.across) * this.deep;
  }

  /** Set the pixels of a node's cards. */
  column(i, palette) {
    const node = this.nodes[i];
    const inner = this.cell > 3 ? 1 : 0;
    const wide = this.image.width;
    for (let c = 0; c < this.rows; c += 1) {
      const card = node.cards[c];
      const color = card ? colorOf(card, node, palette) : 0;
      const from = this.top(i) + c * this.cell;
      for (let y = from; y < from + this.cell - inner; y += 1) {
        this.pixels.fill(color, y * wide + this.left(i), y * wide + this.left(i) + this.cell);
      }
    }
  }

  under(event) {
    const scale = devicePixelRatio || 1;
    const x = Math.floor((event.offsetX * scale) / this.step);
    const y = Math.floor((event.offsetY * scale) / this.deep);
    return x < this.across ? this.nodes[y * this.across + x] : undefined;
  }
}

function colorOf(card, node, palette) {
  if (card.state === "unhealthy" || !node.serving) return palette.bad;
  if (card.state) return palette.shut;
  return palette.steps[Math.round((1 - card.room) * 16)];
}

function gap(cell) {
  return cell > 5 ? 2 : cell > 2 ? 1 : 0;
}

/** The stylesheet's colours as pixels: 17 steps from free to held, and those of closed cards. */
function colors() {
  const style = getComputedStyle(document.documentElement);
  const named = ["--track", "--slice-a", "--red", "--amber"].map((name) => style.getPropertyValue(name).trim());
  const [free, held, bad, shut] = named.map(rgb);
  const steps = Array.from({ length: 17 }, (_, i) => pixel(free.map((part, at) => part + ((held[at] - part) * i) / 16)));
  return { steps, bad: pixel(bad), shut: pixel(shut), key: named.join() };
}

function rgb(text) {
  return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
}

function pixel([red, green, blue]) {
  return ((255 << 24) | (Math.round(blue) << 16) | (Math.round(green) << 8) | Math.round(red)) >>> 0;
}
