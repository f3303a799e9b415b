/**
 * The two names of a field in ProtoJSON: lowerCamelCase, which we write, and the proto's own
 * snake_case, which we read as well (digest 4.1).
 */
export const snake = (name: string): string => name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`)
