// Bars of a card, each one element: its parts are stops of a gradient, so that 40,000 cards need few elements.

import { WARN, wanted } from "./cluster.js";
import { hue } from "./color.js";

/** The colour of a slice: that of its namespace; `warn` where somebody should look, `dim` where the filter names others. */
export function tint(slice, index, place, node) {
  if (WARN.has(slice.state)) return "warn";
  // Somebody else's, whose name may not be seen.
  if (!slice.namespace) return "dim";
  if (!wanted(slice, place, node)) return "dim";
  return hue(slice.namespace, index % 2 === 1);
}

const COLOR = { held: "var(--slice-a)", dim: "var(--dim)", warn: "var(--amber)" };
// Stripes of a part where somebody should look, so that more than its colour says it.
const STRIPES = 3;

/** Paint parts, each `[from, to, colour]` in a whole of `total`. */
export function paint(bar, parts, total) {
  const stops = [];
  for (const [from, to, name] of parts.flatMap(striped)) {
    const a = share(from, total);
    const b = share(to, total);
    // A hair of the track between neighbours.
    stops.push(`transparent ${a}%`, `${COLOR[name] ?? name} ${a}%`, `${COLOR[name] ?? name} calc(${b}% - 1px)`, `transparent calc(${b}% - 1px)`);
  }
  const wantedImage = stops.length ? `linear-gradient(to right, ${stops.join(", ")})` : "none";
  if (bar.image !== wantedImage) {
    bar.image = wantedImage;
    bar.style.backgroundImage = wantedImage;
  }
}

function striped(part) {
  const [from, to, name] = part;
  if (name !== "warn") return [part];
  const wide = (to - from) / (2 * STRIPES - 1);
  return Array.from({ length: STRIPES }, (_, i) => [from + 2 * i * wide, from + (2 * i + 1) * wide, name]);
}

function share(part, total) {
  return total ? Math.round((Math.min(part, total) / total) * 1000) / 10 : 0;
}

export function memoryParts(card, place, node) {
  let from = 0;
  return card.slices.map((slice, index) => [from, (from += slice.mib), tint(slice, index, place, node)]);
}

export function groupParts(card, place, node) {
  const parts = card.slices.flatMap((slice, index) =>
    slice.cores.map(([first, last]) => [first, last + 1, tint(slice, index, place, node)]));
  return parts.sort((one, other) => one[0] - other[0]);
}
