"use strict";
// A seeded generator of uniform numbers in [0, 1): mulberry32.
function uniform(...seeds) {
  let a = seeds.reduce((sum, seed) => Math.imul(sum ^ seed, 0x9e3779b1) + 0x6d2b79f5 | 0, 0);
  return () => {
    a = a + 0x6d2b79f5 | 0;
    let t = Math.imul(a ^ a >>> 15, 1 | a);
    t = t + Math.imul(t ^ t >>> 7, 61 | t) ^ t;
    return ((t ^ t >>> 14) >>> 0) / 4294967296;
  };
}

// Standard normals by Box and Muller.
function normal(random) {
  return () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
}
