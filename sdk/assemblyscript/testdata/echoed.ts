/** What messages.ts calls for a message of each name. */

import { ErrorCode, decode, encode } from "..";

/** The message that was written again. */
export class Echoed {
  static bytes: Uint8Array = new Uint8Array(0);
}

/** Decodes a message and encodes it again; returns the code of the decoder. */
export function echo<M>(bytes: Uint8Array): i32 {
  const message = instantiate<M>();
  const error = decode<M>(bytes, message);
  if (error !== null) return error.code;
  Echoed.bytes = encode<M>(message);
  return ErrorCode.UNSPECIFIED;
}
