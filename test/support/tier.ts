/**
 * How long a test of random or repeated steps is: a few of them in `npm test`, many in
 * `npm run test:faults`, which sets TEST_LONG.
 */
export const runs = (few: number, many: number): number =>
  process.env.TEST_LONG === '1' ? many : few
