//! A node for tests on the machine that a plugin is written on.
//!
//! A test calls the functions of the plugin as they are. Their capabilities are answered by what
//! `answer` and `refuse` were given, and without that with Unimplemented.

const std = @import("std");
const api = @import("wasmnode.zig");
const wire = @import("wire.zig");
const Allocator = std.mem.Allocator;

const Use = struct { capability: []const u8, bytes: []const u8, code: api.ErrorCode = .unspecified };
const Uses = std.ArrayListUnmanaged(Use);

/// The node of the test that runs: tests run one after the other.
const Node = struct {
    memory: std.heap.ArenaAllocator,
    answers: Uses = .{ .items = &.{}, .capacity = 0 },
    uses: Uses = .{ .items = &.{}, .capacity = 0 },
    staged: []const u8 = "",
    input: []const u8 = "",
    output: ?[]const u8 = null,
    log: []const u8 = "",
    written: []const u8 = "",
};

var node: Node = undefined;

/// Begins a test with a new node, and returns the memory for what the plugin is called with.
pub fn begin() Allocator {
    node = .{ .memory = std.heap.ArenaAllocator.init(std.testing.allocator) };
    return node.memory.allocator();
}

/// Ends the test, and frees its memory.
pub fn end() void {
    node.memory.deinit();
}

fn arena() Allocator {
    return node.memory.allocator();
}

/// Sets what a capability, such as "wasm_start", answers from now on: a message, or bytes.
pub fn answer(capability_: []const u8, message: anytype) !void {
    const bytes = if (@typeInfo(@TypeOf(message)) == .@"struct") try wire.encode(arena(), message) else try arena().dupe(u8, message);
    try node.answers.append(arena(), .{ .capability = capability_, .bytes = bytes });
}

/// Sets the error that a capability fails with from now on.
pub fn refuse(capability_: []const u8, failure: api.Error) !void {
    const bytes = try wire.encode(arena(), failure);
    try node.answers.append(arena(), .{ .capability = capability_, .bytes = bytes, .code = failure.code });
}

/// Returns the last request to a capability.
pub fn asked(comptime Request: type, capability_: []const u8) !Request {
    const use = latest(&node.uses, capability_) orelse return error.NotAsked;
    return wire.decode(Request, arena(), use.bytes);
}

/// Returns the lines that were logged so far.
pub fn logged() []const u8 {
    return node.log;
}

/// Returns what was written to the task's standard output and standard error so far.
pub fn written() []const u8 {
    return node.written;
}

/// Calls an operation with bytes as the node does, such as that which `operation` makes of
/// a function, and returns its code and its answer.
pub fn call(operation: anytype, request: []const u8) struct { i32, []const u8 } {
    node.input = request;
    node.output = null;
    const code = operation(@intCast(request.len));
    return .{ code, node.output orelse @panic("the operation has no answer: that is a fault") };
}

fn latest(uses: *const Uses, name: []const u8) ?Use {
    var found: ?Use = null;
    for (uses.items) |use| {
        if (std.mem.eql(u8, use.capability, name)) found = use;
    }
    return found;
}

fn join(before: []const u8, parts: []const []const u8) []const u8 {
    const after = std.mem.concat(arena(), u8, parts) catch @panic("out of memory");
    return std.mem.concat(arena(), u8, &.{ before, after }) catch @panic("out of memory");
}

/// Answers a capability, and keeps the answer until it is fetched.
pub fn capability(name: []const u8, request: []const u8) u64 {
    node.uses.append(arena(), .{ .capability = name, .bytes = join("", &.{request}) }) catch @panic("out of memory");
    const found = latest(&node.answers, name) orelse Use{
        .capability = name,
        .bytes = wire.encode(arena(), api.Error{ .message = join("nothing answers ", &.{name}) }) catch @panic("out of memory"),
        .code = .unimplemented,
    };
    node.staged = found.bytes;
    return @as(u64, @as(u32, @bitCast(@intFromEnum(found.code)))) << 32 | found.bytes.len;
}

/// The functions of the node that take and give memory.
pub const imports = struct {
    pub const abi = struct {
        pub fn input(to: [*]u8) void {
            @memcpy(to, node.input);
        }
        pub fn output(from: [*]const u8, length: u32) void {
            if (node.output != null) @panic("a second answer is a fault");
            node.output = join("", &.{from[0..length]});
        }
        pub fn result(to: [*]u8) void {
            @memcpy(to, node.staged);
        }
    };
    pub const log = struct {
        pub fn write(_: i32, line: [*]const u8, length: u32, _: [*]const u8, _: u32) void {
            node.log = join(node.log, &.{ line[0..length], "\n" });
        }
    };
    pub const task = struct {
        pub fn refresh() void {
            _ = capability("task_refresh", "");
        }
        pub fn output(_: u32, from: [*]const u8, length: u32) u64 {
            node.written = join(node.written, &.{from[0..length]});
            return 0;
        }
        pub fn mark(_: u32, from: [*]const u8, length: u32) u64 {
            return capability("task_mark", from[0..length]);
        }
    };
    pub const stream = struct {
        /// Is answered with the bytes that there is room for.
        pub fn read(_: u32, to: [*]u8, length: u32) u64 {
            const status = capability("stream_read", "");
            if (status >> 32 != 0) return status;
            const n = @min(node.staged.len, length);
            @memcpy(to, node.staged[0..n]);
            return n;
        }
        /// Takes all.
        pub fn write(_: u32, from: [*]const u8, length: u32) u64 {
            const status = capability("stream_write", from[0..length]);
            return if (status >> 32 != 0) status else length;
        }
        pub fn shutdown(_: u32) u64 {
            return capability("stream_shutdown", "");
        }
        pub fn close(_: u32) u64 {
            return capability("stream_close", "");
        }
        pub fn blocking(_: u32, _: u32) u64 {
            return capability("stream_blocking", "");
        }
    };
};
