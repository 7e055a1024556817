// Long work is done in pieces, so that the page paints and hears keys between them.

// Milliseconds of work in one piece.
export const PIECE = 8;

/** Resolves after the page had its turn. */
export const turn = globalThis.scheduler?.yield ? () => scheduler.yield() : () => new Promise((resolve) => setTimeout(resolve));
