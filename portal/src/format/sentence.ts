/** Messages begin in lower case, as they continue a line of the command line. */
export function asSentence(message: string): string {
  return message.charAt(0).toUpperCase() + message.slice(1);
}
