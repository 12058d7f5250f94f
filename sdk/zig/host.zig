//! The calling convention, and the capabilities whose arguments are no messages.

const std = @import("std");
const builtin = @import("builtin");
const api = @import("wasmnode.zig");
const testing = @import("testing.zig");
const wire = @import("wire.zig");
const Allocator = std.mem.Allocator;
const Failure = api.Failure;

/// Whether this is a plugin, and not a test of one on the machine that it is written on.
pub const on_node = builtin.cpu.arch.isWasm();

const imports = struct {
    const abi = struct {
        extern "wasmnode:abi/v1" fn input(to: [*]u8) void;
        extern "wasmnode:abi/v1" fn output(from: [*]const u8, length: u32) void;
        extern "wasmnode:abi/v1" fn result(to: [*]u8) void;
    };
    const log = struct {
        extern "wasmnode:log/v1" fn write(level: i32, line: [*]const u8, length: u32, fields: [*]const u8, fields_length: u32) void;
    };
    const task = struct {
        extern "wasmnode:task/v1" fn refresh() void;
        extern "wasmnode:task/v1" fn output(stream: u32, from: [*]const u8, length: u32) u64;
        extern "wasmnode:task/v1" fn mark(stream: u32, from: [*]const u8, length: u32) u64;
    };
    const stream = struct {
        extern "wasmnode:stream/v1" fn read(stream: u32, to: [*]u8, length: u32) u64;
        extern "wasmnode:stream/v1" fn write(stream: u32, from: [*]const u8, length: u32) u64;
        extern "wasmnode:stream/v1" fn shutdown(stream: u32) u64;
        extern "wasmnode:stream/v1" fn close(stream: u32) u64;
        extern "wasmnode:stream/v1" fn blocking(stream: u32, on: u32) u64;
    };
};

/// The node: that of a test has the same functions.
const node = if (on_node) imports else testing.imports;

// ---- Operations ----

/// The memory of an operation: a node calls one after the other.
var memory = std.heap.ArenaAllocator.init(if (on_node) std.heap.wasm_allocator else std.heap.page_allocator);

/// What stays of it for the next operation.
const memory_kept = 1 << 20;

/// Returns the function that a plugin exports for one of its own.
pub fn operation(comptime Request: type, comptime Response: type, comptime function: anytype) fn (u32) callconv(.c) i32 {
    return struct {
        fn exported(length: u32) callconv(.c) i32 {
            _ = memory.reset(.{ .retain_with_limit = memory_kept });
            last = .{};
            const arena = memory.allocator();
            const answer = does(arena, length) catch |failure| {
                const said = errorFor(failure);
                give(wire.encode(arena, said) catch "");
                return @intFromEnum(said.code);
            };
            give(answer);
            return 0;
        }

        fn does(arena: Allocator, length: u32) anyerror![]const u8 {
            const bytes = try arena.alloc(u8, length);
            if (length > 0) node.abi.input(bytes.ptr);
            const request = wire.decode(Request, arena, bytes) catch |refused| return failRefused(refused);
            const response: Response = try function(arena, request);
            return wire.encode(arena, response);
        }
    }.exported;
}

fn give(answer: []const u8) void {
    node.abi.output(answer.ptr, @intCast(answer.len));
}

// ---- Errors ----

/// The last error with a text.
var last: api.Error = .{};

/// Its text, when it was written here.
var last_text: [1024]u8 = undefined;

/// Returns the last error that a capability answered, or that `fail` made, in this operation.
pub fn lastError() api.Error {
    return last;
}

/// Makes an error that trying again does not help. The text is one line for a person: what went
/// wrong, and what to do.
pub fn fail(code: api.ErrorCode, comptime format: []const u8, args: anytype) Failure {
    return failWith(code, false, format, args);
}

/// Makes an error that trying the same again can help.
pub fn failRecoverable(code: api.ErrorCode, comptime format: []const u8, args: anytype) Failure {
    return failWith(code, true, format, args);
}

fn failWith(code: api.ErrorCode, recoverable: bool, comptime format: []const u8, args: anytype) Failure {
    var room: [last_text.len]u8 = undefined; // the text before may be an argument
    const text = print(&room, format, args);
    @memcpy(last_text[0..text.len], text);
    last = .{ .code = code, .message = last_text[0..text.len], .recoverable = recoverable };
    return api.failureOf(code);
}

/// Writes a text, or as much of it as there is room for.
fn print(room: []u8, comptime format: []const u8, args: anytype) []const u8 {
    return std.fmt.bufPrint(room, format, args) catch room;
}

/// Returns what the node is told: the last text belongs to the last error only.
fn errorFor(failure: anyerror) api.Error {
    if (last.code != .unspecified and api.failureOf(last.code) == failure) return last;
    return .{ .code = api.codeOf(failure), .message = if (failure == error.OutOfMemory) "out of memory" else @errorName(failure) };
}

fn failRefused(refused: wire.Refused) Failure {
    return switch (refused) {
        error.Malformed => fail(.invalid_argument, "the message makes no sense", .{}),
        error.TooLarge => fail(.resource_exhausted, "the message takes too much memory", .{}),
        error.OutOfMemory => error.OutOfMemory,
    };
}

/// Reads the JSON of a configuration into a struct. The node has checked it against the plugin's
/// schema and filled in its defaults; give each member one too, for what the schema leaves out.
pub fn parseConfig(comptime T: type, arena: Allocator, text: []const u8) Failure!T {
    const options = std.json.ParseOptions{ .ignore_unknown_fields = true, .duplicate_field_behavior = .use_last };
    return std.json.parseFromSliceLeaky(T, arena, text, options) catch |refused| {
        if (refused == error.OutOfMemory) return error.OutOfMemory;
        return fail(.invalid_argument, "the configuration makes no sense: {s}", .{@errorName(refused)});
    };
}

// ---- What capabilities answer ----

/// Fetches what a capability answered.
pub fn answered(comptime Response: type, arena: Allocator, status: u64) Failure!Response {
    return wire.decode(Response, arena, try fetch(arena, status)) catch |refused| return failRefused(refused);
}

/// The same of one that answers nothing.
pub fn done(arena: Allocator, status: u64) Failure!void {
    _ = try fetch(arena, status);
}

fn fetch(arena: Allocator, status: u64) Failure![]const u8 {
    const answer = try arena.alloc(u8, @as(u32, @truncate(status)));
    if (answer.len > 0) node.abi.result(answer.ptr);
    const code: api.ErrorCode = @enumFromInt(@as(i32, @bitCast(@as(u32, @intCast(status >> 32)))));
    if (code == .unspecified) return answer;
    last = wire.decode(api.Error, arena, answer) catch .{};
    last.code = code;
    return api.failureOf(code);
}

/// On success the lower half of a status counts bytes.
fn moved(arena: Allocator, status: u64) Failure!usize {
    if (status >> 32 == 0) return @as(u32, @truncate(status));
    try done(arena, status);
    unreachable; // it has failed
}

// ---- Logs ----

/// Writes a line into the node's log.
pub fn log(level: api.LogLevel, line: []const u8) void {
    logFields(level, line, &.{});
}

/// Writes a line with fields, keys and their values.
pub fn logFields(level: api.LogLevel, line: []const u8, fields: []const api.LogField) void {
    const encoded = wire.encode(memory.allocator(), api.LogFields{ .fields = fields }) catch "";
    node.log.write(@intFromEnum(level), line.ptr, @intCast(line.len), encoded.ptr, @intCast(encoded.len));
}

/// Makes what std.log writes lines of the node's log.
pub const std_options = std.Options{ .log_level = .debug, .logFn = stdLog };

fn stdLog(comptime level: std.log.Level, comptime scope: @TypeOf(.enum_literal), comptime format: []const u8, args: anytype) void {
    const prefix = if (scope == .default) "" else @tagName(scope) ++ ": ";
    var room: [4096]u8 = undefined;
    log(switch (level) {
        .err => .@"error",
        .warn => .warn,
        .info => .info,
        .debug => .debug,
    }, print(&room, prefix ++ format, args));
}

/// Makes a panic a line in the node's log, before it ends the instance.
pub const panic = if (@hasDecl(std.debug, "FullPanic")) std.debug.FullPanic(died) else diedBefore;

/// The same as versions of Zig before 0.14.0 want it.
fn diedBefore(text: []const u8, _: ?*std.builtin.StackTrace, _: ?usize) noreturn {
    died(text, null);
}

fn died(text: []const u8, _: ?usize) noreturn {
    var line: [1024]u8 = undefined;
    const head = "panic: ";
    const length = @min(text.len, line.len - head.len);
    @memcpy(line[0..head.len], head);
    @memcpy(line[head.len..][0..length], text[0..length]);
    log(.@"error", line[0 .. head.len + length]);
    @trap();
}

// ---- Capabilities that move bytes ----

/// Asks the node to poll the fingerprint soon.
pub fn taskRefresh() void {
    node.task.refresh();
}

/// Writes to the log files of the task that the call is about: stream 1 is standard output, 2
/// standard error.
pub fn taskOutput(arena: Allocator, stream: u32, bytes: []const u8) Failure!void {
    return done(arena, node.task.output(stream, bytes.ptr, @intCast(bytes.len)));
}

/// Remembers up to 256 bytes with what the stream of the task's output has so far.
pub fn taskMark(arena: Allocator, stream: u32, bytes: []const u8) Failure!void {
    return done(arena, node.task.mark(stream, bytes.ptr, @intCast(bytes.len)));
}

/// Reads at least one byte, and answers how many; 0 is the end of the stream. After
/// `streamBlocking(arena, stream, false)` it fails with Unavailable instead of waiting.
pub fn streamRead(arena: Allocator, stream: u32, to: []u8) Failure!usize {
    return moved(arena, node.stream.read(stream, to.ptr, @intCast(to.len)));
}

/// Writes at least one byte, and answers how many.
pub fn streamWrite(arena: Allocator, stream: u32, bytes: []const u8) Failure!usize {
    return moved(arena, node.stream.write(stream, bytes.ptr, @intCast(bytes.len)));
}

/// Says that nothing more is written; reading goes on.
pub fn streamShutdown(arena: Allocator, stream: u32) Failure!void {
    return done(arena, node.stream.shutdown(stream));
}

/// Closes a stream.
pub fn streamClose(arena: Allocator, stream: u32) Failure!void {
    return done(arena, node.stream.close(stream));
}

/// Says whether reads and writes wait.
pub fn streamBlocking(arena: Allocator, stream: u32, on: bool) Failure!void {
    return done(arena, node.stream.blocking(stream, @intFromBool(on)));
}
