//! The directories that the operator granted, by the paths that they have on the node. A plugin
//! that reads them is built for wasm32-wasi.

const std = @import("std");
const builtin = @import("builtin");
const Allocator = std.mem.Allocator;

/// Opens a directory by its absolute path, to list it, and to open and read what is in it: one
/// that is granted, or one below it. `error.FileNotFound` is also what is not granted. The caller
/// closes it.
pub fn openDir(arena: Allocator, path: []const u8) !std.fs.Dir {
    if (builtin.os.tag != .wasi) return std.fs.openDirAbsolute(path, .{ .iterate = true });
    const preopens = try std.fs.wasi.preopensAlloc(arena);
    var root: ?usize = null;
    for (preopens.names, 0..) |name, fd| {
        if (fd <= std.posix.STDERR_FILENO or !isIn(path, name)) continue;
        if (root == null or name.len > preopens.names[root.?].len) root = fd;
    }
    const fd = root orelse return error.FileNotFound;
    const below = std.mem.trimLeft(u8, path[preopens.names[fd].len..], "/");
    const granted = std.fs.Dir{ .fd = @intCast(fd) };
    return granted.openDir(if (below.len > 0) below else ".", .{ .iterate = true });
}

/// Whether a path is a directory's, or of what is below it.
fn isIn(path: []const u8, dir: []const u8) bool {
    if (!std.mem.startsWith(u8, path, dir)) return false;
    return path.len == dir.len or path[dir.len] == '/' or std.mem.endsWith(u8, dir, "/");
}
