/**
 * One factor for every limit of the tests. A limit only says when to give up on something that will
 * not happen any more, so a machine that is slow, or busy with other work, raises all of them:
 *
 *   TEST_TIMEOUT_FACTOR=5 npm test
 */
const factor = Number(process.env.TEST_TIMEOUT_FACTOR ?? 1)
if (!(factor > 0)) throw new Error('TEST_TIMEOUT_FACTOR must be a number above 0')

/** A limit in ms, as it is on this machine. */
export const scaled = (ms: number): number => ms * factor
