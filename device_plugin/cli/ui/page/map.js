// All cards at a glance: a cell for each, deeper the less room it has. Nodes stand side by side, each a column of its cards.

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
    canvas.addEventListener("click", (event) => {
      const node = this.under(event);
      if (node) choose(node.name);
    });
    canvas.addEventListener("mousemove", (event) => {
      canvas.title = this.under(event)?.name ?? "";
    });
  }

  /** Show these nodes; of those that are shown already, only the columns that changed are drawn. */
  show(nodes) {
    const before = this.nodes;
    this.nodes = nodes;
    const width = this.canvas.clientWidth;
    if (!width) return;
    const palette = colors();
    const laid = this.lay(nodes, width, palette.key);
    const changed = laid ? nodes.map((_, i) => i) : nodes.flatMap((node, i) => (node === before[i] ? [] : [i]));
    for (const i of changed) this.column(i, palette);
    if (changed.length > MOST_COLUMNS) this.context.putImageData(this.image, 0, 0);
    else {
      for (const i of changed) {
        this.context.putImageData(this.image, 0, 0, this.left(i), this.top(i), this.step, this.deep);
      }
    }
  }

  /** Choose the largest cell with which all nodes fit the height; returns true if all must be drawn. */
  lay(nodes, width, key) {
    const scale = devicePixelRatio || 1;
    const wide = Math.floor(width * scale);
    const rows = Math.min(16, Math.max(1, ...nodes.map((node) => node.cards.length)));
    const wanted = [nodes.length, wide, rows, key].join();
    if (this.laid === wanted) return false;
    this.laid = wanted;
    this.rows = rows;
    for (this.cell = Math.floor(MOST_CELL * scale); ; this.cell -= 1) {
      this.step = this.cell + gap(this.cell);
      this.across = Math.max(1, Math.floor(wide / this.step));
      this.deep = rows * this.cell + 2 * gap(this.cell) + 1;
      this.lines = Math.max(1, Math.ceil(nodes.length / this.across));
      if (this.cell === 1 || this.lines * this.deep <= MOST_HEIGHT * scale) break;
    }
    this.canvas.width = wide;
    this.canvas.height = this.lines * this.deep;
    this.canvas.style.height = `${this.canvas.height / scale}px`;
    this.image = this.context.createImageData(wide, this.canvas.height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    return true;
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
    const wide = this.canvas.width;
    for (let c = 0; c < this.rows; c += 1) {
      const card = node.cards[c];
      const bad = card && (card.state === "unhealthy" || !node.serving);
      const color = !card ? 0 : bad ? palette.bad : palette.steps[Math.round((1 - card.room) * 16)];
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

function gap(cell) {
  return cell > 5 ? 2 : cell > 2 ? 1 : 0;
}

/** The stylesheet's colours as pixels: 17 steps from free to held, and that of a closed card. */
function colors() {
  const style = getComputedStyle(document.documentElement);
  const named = ["--track", "--slice-a", "--red"].map((name) => style.getPropertyValue(name).trim());
  const [free, held, bad] = named.map(rgb);
  const steps = Array.from({ length: 17 }, (_, i) => pixel(free.map((part, at) => part + ((held[at] - part) * i) / 16)));
  return { steps, bad: pixel(bad), key: named.join() };
}

function rgb(text) {
  return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
}

function pixel([red, green, blue]) {
  return ((255 << 24) | (Math.round(blue) << 16) | (Math.round(green) << 8) | Math.round(red)) >>> 0;
}
