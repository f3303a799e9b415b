/**
 * The two names of a field in ProtoJSON: lowerCamelCase, which we write (spec 5.5), and the proto's
 * own snake_case, which we read as well because every ProtoJSON parser does.
 */
export const snake = (name: string): string => name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`)
