// A colour for each namespace: a hue, which follows from its name, and from the other names where two would be equal. The
// stylesheet sets lightness and chroma for light and dark.

// Hues in degrees: without reds and ambers, which say that somebody should look. Every second one is taken first.
const FIRST = 110;
const STEP = 18;
const HUES = 14;
const ORDER = Array.from({ length: HUES }, (_, i) => (i * 2) % HUES + (i * 2 >= HUES ? 1 : 0));
const HALF = HUES / 2;

const chosen = new Map();
const uses = new Array(HUES).fill(0);

/** Choose hues for namespaces that have none yet, in the order of their names; equal sets of names get equal hues. */
export function choose(namespaces) {
  for (const name of namespaces.filter((each) => !chosen.has(each)).sort()) {
    const wanted = preferred(name);
    let best = wanted;
    for (let i = 0; i < HUES; i += 1) {
      // The other hues of the first half before those of the second.
      const next = i < HALF ? (wanted + i) % HALF : i;
      if (uses[next] < uses[best]) best = next;
    }
    uses[best] += 1;
    chosen.set(name, best);
  }
}

/** The colour of a namespace, as CSS. */
export function hue(namespace) {
  return hueAt(index(namespace));
}

/** The number of the hue of a namespace. */
export function index(namespace) {
  return chosen.get(namespace) ?? preferred(namespace);
}

/** The colour of a hue, as CSS. */
function hueAt(i) {
  return `oklch(var(--tone) var(--chroma) ${FIRST + STEP * ORDER[i]})`;
}

/** FNV-1a over the characters, mixed once more, because names often differ in their last character only. */
function preferred(text) {
  let value = 0x811c9dc5;
  for (const character of text) value = Math.imul(value ^ character.codePointAt(0), 0x01000193);
  value ^= value >>> 15;
  value = Math.imul(value, 0x2c1b3c6d);
  return ((value ^ (value >>> 12)) >>> 0) % HALF;
}
