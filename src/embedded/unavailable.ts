/**
 * No PostgreSQL of our own can be had here, for a reason that the message tells a person together
 * with the way out.
 */
export class EmbeddedUnavailable extends Error {
  override name = 'EmbeddedUnavailable'
}
