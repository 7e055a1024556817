// All cards at a glance: a cell for each, in the colour of the namespace that holds most of it, deeper the less room it
// has. Nodes stand side by side, each a column of its cards. Stripes and crosses mark closed cards as well as colours.

import { index, SHADES } from "./color.js";
import { t } from "./language.js";
import { PIECE } from "./turn.js";

const MOST_HEIGHT = 190;
const MOST_CELL = 28;
// Pixels of a cell from which on closed cards have a pattern.
const PATTERN = 5;
// Columns that are painted one by one; more are painted with the whole.
const MOST_COLUMNS = 100;
// Steps of lightness from a free card to a held one.
const STEPS = 16;

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
      const node = this.under(event);
      canvas.title = node ? t("map-node", { node: node.name, share: Math.round((node.heldMiB / (node.mib || 1)) * 100) }) : "";
    });
  }

  /** Draw all columns with the next nodes: the namespaces have other colours. */
  forget() {
    this.laid = "";
  }

  /** Show these nodes. Only columns that changed are drawn, and what takes longer than a piece is left for the next one. */
  show(nodes) {
    const end = performance.now() + PIECE;
    this.nodes = nodes;
    const width = this.canvas.clientWidth;
    if (!width) return;
    this.palette = colors(this.palette);
    const { palette } = this;
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
      if (card && this.cell >= PATTERN) this.mark(closed(card, node), from, this.left(i), palette.gap);
    }
  }

  /** Draw stripes over a cordoned card, and a cross over one that is unhealthy or has no agent. */
  mark(state, top, left, color) {
    const high = this.cell - 1;
    for (let y = 0; state && y < high; y += 1) {
      for (let x = 0; x < this.cell; x += 1) {
        const drawn = state === "shut" ? (x + y) % 5 === 0 : Math.abs(x - y) < 1 || Math.abs(this.cell - 1 - x - y) < 1;
        if (drawn) this.pixels[(top + y) * this.image.width + left + x] = color;
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

function closed(card, node) {
  if (card.state === "unhealthy" || !node.serving) return "bad";
  return card.state ? "shut" : "";
}

function colorOf(card, node, palette) {
  const state = closed(card, node);
  return state ? palette[state] : (card.main || !card.slices.length ? palette.steps[index(card.main)] : palette.others)[Math.round((1 - card.room) * STEPS)];
}

function gap(cell) {
  return cell > 5 ? 2 : cell > 2 ? 1 : 0;
}

/** The stylesheet's colours as pixels: for each hue the steps from free to held, and those of closed cards. */
function colors(known) {
  const style = getComputedStyle(document.documentElement);
  const named = ["--track", "--red", "--amber", "--surface", "--dim", "--tone"].map((name) => style.getPropertyValue(name).trim());
  const key = named.join();
  if (known?.key === key) return known;
  const [free, bad, shut, gap, dim] = named.slice(0, 5).map(rgb);
  const shades = (held) => Array.from({ length: STEPS + 1 }, (_, i) => pixel(free.map((part, at) => part + ((held[at] - part) * i) / STEPS)));
  const steps = SHADES.map((shade) => shades(rgb(shade)));
  return { steps, others: shades(dim), bad: pixel(bad), shut: pixel(shut), gap: pixel(gap), key };
}

/** Red, green and blue of a CSS colour, which may have the stylesheet's variables in it. */
function rgb(text) {
  const probe = document.createElement("i");
  probe.style.color = text;
  document.body.append(probe);
  const context = new OffscreenCanvas(1, 1).getContext("2d");
  context.fillStyle = getComputedStyle(probe).color;
  probe.remove();
  context.fillRect(0, 0, 1, 1);
  return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
}

function pixel([red, green, blue]) {
  return ((255 << 24) | (Math.round(blue) << 16) | (Math.round(green) << 8) | Math.round(red)) >>> 0;
}
