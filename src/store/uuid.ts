/** Ids come from anywhere. What is no UUID is the id of nothing, and never reaches a cast. */

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

export const isUuid = (id: string): boolean => UUID.test(id)
