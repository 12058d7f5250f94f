/**
 * The directories that the operator granted, by the paths that they have on the node, by WASI.
 * A plugin that imports nothing from here imports nothing of WASI.
 */

import { Error, ErrorCode } from "./generated";
import { fail } from "./host";
import { utf8 } from "./wire";

@external("wasi_snapshot_preview1", "fd_prestat_get")
declare function fd_prestat_get(fd: u32, to: usize): u32;
@external("wasi_snapshot_preview1", "fd_prestat_dir_name")
declare function fd_prestat_dir_name(fd: u32, to: usize, length: u32): u32;
@external("wasi_snapshot_preview1", "path_open")
declare function path_open(fd: u32, lookup: u32, path: usize, length: u32, open: u32, rights: u64, inherited: u64, flags: u32, to: usize): u32;
@external("wasi_snapshot_preview1", "path_filestat_get")
declare function path_filestat_get(fd: u32, lookup: u32, path: usize, length: u32, to: usize): u32;
@external("wasi_snapshot_preview1", "fd_readdir")
declare function fd_readdir(fd: u32, to: usize, length: u32, cookie: u64, used: usize): u32;
@external("wasi_snapshot_preview1", "fd_read")
declare function fd_read(fd: u32, vectors: usize, count: u32, used: usize): u32;
@external("wasi_snapshot_preview1", "fd_close")
declare function fd_close(fd: u32): u32;

/** The names in a directory, in the order of their characters, or why there are none. */
export class Names {
  constructor(
    public names: string[],
    public error: Error | null,
  ) {}
}

/** What a path is. A link is itself, not what it leads to. */
export class About {
  /** Whether it is a file that is no link, device or pipe. */
  regular: bool = false;
  directory: bool = false;
  /** In bytes. */
  size: u64 = 0;
  /** When it was written, in nanoseconds since the Unix epoch. */
  modified_ns: u64 = 0;
  error: Error | null = null;
}

/** What a file holds, or why nothing was read. */
export class Content {
  constructor(
    public bytes: Uint8Array,
    public error: Error | null,
  ) {}
}

/** Lists a directory. */
export function read_dir(path: string): Names {
  const fd = open(path, OPEN_DIRECTORY);
  if (fd < 0) return new Names([], refused("open", path, -fd));
  const names: string[] = [];
  const room = new ArrayBuffer(PIECE);
  let cookie: u64 = 0;
  for (;;) {
    const failed = fd_readdir(fd, changetype<usize>(room), PIECE, cookie, word);
    if (failed != 0) {
      fd_close(fd);
      return new Names([], refused("read", path, failed));
    }
    const used = load<u32>(word);
    let at: u32 = 0;
    while (at + ENTRY <= used) {
      const entry = changetype<usize>(room) + at;
      const length = load<u32>(entry, 16);
      if (<u64>at + ENTRY + length > used) break; // the next piece has it whole
      const name = String.UTF8.decodeUnsafe(entry + ENTRY, length);
      if (name != "." && name != "..") names.push(name);
      cookie = load<u64>(entry);
      at += ENTRY + length;
    }
    if (used < PIECE || at == 0) break;
  }
  fd_close(fd);
  return new Names(names.sort(), null);
}

/** Says what a path is. */
export function stat(path: string): About {
  const about = new About();
  const place = Place.of(path);
  let failed = ERRNO_NOENT;
  if (place) {
    const to = new ArrayBuffer(64);
    const found = changetype<usize>(to);
    failed = path_filestat_get(place.fd, 0, place.path.dataStart, place.path.length, found);
    about.directory = load<u8>(found, 16) == 3;
    about.regular = load<u8>(found, 16) == 4;
    about.size = load<u64>(found, 32);
    about.modified_ns = load<u64>(found, 48);
  }
  if (failed != 0) about.error = refused("stat", path, failed);
  return about;
}

/** Reads a file of at most a number of bytes; what is behind them is left out. */
export function read_file(path: string, most: i32 = 1 << 20): Content {
  const fd = open(path, 0);
  if (fd < 0) return new Content(new Uint8Array(0), refused("open", path, -fd));
  const bytes = new Uint8Array(most);
  let have = 0;
  while (have < most) {
    store<u32>(vector, <u32>(bytes.dataStart + have));
    store<u32>(vector, <u32>(most - have), 4);
    const failed = fd_read(fd, vector, 1, word);
    if (failed != 0) {
      fd_close(fd);
      return new Content(new Uint8Array(0), refused("read", path, failed));
    }
    const got = load<i32>(word);
    if (got == 0) break;
    have += got;
  }
  fd_close(fd);
  return new Content(bytes.slice(0, have), null);
}

/** A directory is read in pieces of as many bytes; an entry takes 24 and its name. */
const PIECE: u32 = 16384;
const ENTRY: u32 = 24;

const OPEN_DIRECTORY: u32 = 2;
const FOLLOW_LINKS: u32 = 1;
const READ: u64 = 1 << 1;
const READ_DIRECTORY: u64 = 1 << 14;

const ERRNO_ACCES: u32 = 2;
const ERRNO_NOENT: u32 = 44;
const ERRNO_NOTDIR: u32 = 54;
const ERRNO_PERM: u32 = 63;
const ERRNO_NOTCAPABLE: u32 = 76;

const word = memory.data(8, 8);
const vector = memory.data(8, 8);

/** A path below a directory that is granted. */
class Place {
  constructor(
    public fd: u32,
    public path: Uint8Array,
  ) {}

  /** Returns null for what is in none of them; of several the one with the longest path has it. */
  static of(path: string): Place | null {
    let best: Place | null = null;
    let longest = -1;
    for (let fd: u32 = 3; fd_prestat_get(fd, word) == 0; fd++) {
      const name = new Uint8Array(load<i32>(word, 4));
      if (fd_prestat_dir_name(fd, name.dataStart, name.length) != 0) continue;
      const dir = String.UTF8.decode(name.buffer);
      if (!path.startsWith(dir) || dir.length <= longest) continue;
      let below = path.substring(dir.length);
      if (below != "" && !below.startsWith("/") && !dir.endsWith("/")) continue;
      while (below.startsWith("/")) below = below.substring(1);
      best = new Place(fd, utf8(below == "" ? "." : below));
      longest = dir.length;
    }
    return best;
  }
}

/** Returns the number of an open file, or, negative, that of WASI's error. */
function open(path: string, how: u32): i32 {
  const place = Place.of(path);
  if (!place) return -(<i32>ERRNO_NOENT);
  const rights = how == OPEN_DIRECTORY ? READ_DIRECTORY : READ;
  const failed = path_open(place.fd, FOLLOW_LINKS, place.path.dataStart, place.path.length, how, rights, 0, 0, word);
  return failed != 0 ? -(<i32>failed) : load<i32>(word);
}

function refused(what: string, path: string, errno: u32): Error {
  if (errno == ERRNO_NOENT) return fail(ErrorCode.NOT_FOUND, `${what} ${path}: no such file or directory`);
  if (errno == ERRNO_NOTDIR) return fail(ErrorCode.INVALID_ARGUMENT, `${what} ${path}: not a directory`);
  if (errno == ERRNO_ACCES || errno == ERRNO_PERM || errno == ERRNO_NOTCAPABLE) {
    return fail(ErrorCode.PERMISSION_DENIED, `${what} ${path}: permission denied`);
  }
  return fail(ErrorCode.UNAVAILABLE, `${what} ${path}: error ${errno} of WASI`);
}
