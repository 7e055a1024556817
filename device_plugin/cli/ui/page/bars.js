// Bars of a card, each one element: its parts are stops of a gradient, so that 40,000 cards need few elements.

import { WARN, wanted } from "./cluster.js";

/** The tint of a slice: two alternate, amber where somebody should look, grey where the filter names others. */
export function tint(slice, index, place, node) {
  if (WARN.has(slice.state)) return "warn";
  if (!wanted(slice, place, node)) return "dim";
  return index % 2 ? "b" : "a";
}

const COLOR = { a: "var(--slice-a)", b: "var(--slice-b)", dim: "var(--dim)", warn: "var(--amber)" };

/** Paint parts, each `[from, to, tint]` in a whole of `total`. */
export function paint(bar, parts, total) {
  const stops = [];
  for (const [from, to, name] of parts) {
    const a = share(from, total);
    const b = share(to, total);
    // A hair of the track between neighbours.
    stops.push(`transparent ${a}%`, `${COLOR[name]} ${a}%`, `${COLOR[name]} calc(${b}% - 1px)`, `transparent calc(${b}% - 1px)`);
  }
  const wantedImage = stops.length ? `linear-gradient(to right, ${stops.join(", ")})` : "none";
  if (bar.image !== wantedImage) {
    bar.image = wantedImage;
    bar.style.backgroundImage = wantedImage;
  }
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
