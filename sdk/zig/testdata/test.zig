//! Tests of the SDK without a node.

const std = @import("std");
const wasmnode = @import("wasmnode");
const testing = wasmnode.testing;
const Allocator = std.mem.Allocator;
const expect = std.testing.expect;
const expectEqual = std.testing.expectEqual;
const expectError = std.testing.expectError;
const expectEqualStrings = std.testing.expectEqualStrings;

const Config = struct {
    name: []const u8 = "",
    list: []const []const u8 = &.{},
    times: i64 = 1,
    fraction: f64 = 0,
    on: bool = false,
    inner: struct { deep: ?[]const u8 = null } = .{},
};

test "a configuration is read into a struct" {
    const arena = testing.begin();
    defer testing.end();
    const config = try wasmnode.parseConfig(Config, arena,
        \\ {"name": "x\n\u00fc\ud83d\ude00", "list": ["a", ""], "times": -9223372036854775808, "later": [{}],
        \\  "fraction": -2.5e3, "on": true, "inner": {"deep": "here"}, "name": "last"}
    );
    try expectEqualStrings("last", config.name);
    try expect(config.list.len == 2 and config.times == std.math.minInt(i64) and config.fraction == -2500 and config.on);
    try expectEqualStrings("here", config.inner.deep.?);
    const empty = try wasmnode.parseConfig(Config, arena, "{}");
    try expect(empty.times == 1 and empty.inner.deep == null);
    for ([_][]const u8{ "", " ", "{", "[1", "{\"a\"}", "{a:1}", "\"", "{} {}", "{\"times\": \"one\"}", "{\"name\": \"\\ud800\"}" }) |text| {
        try expectError(error.InvalidArgument, wasmnode.parseConfig(Config, arena, text));
        try expect(std.mem.startsWith(u8, wasmnode.lastError().message, "the configuration makes no sense: "));
    }
}

test "nothing answers a capability that a test does not answer" {
    const arena = testing.begin();
    defer testing.end();
    try expectError(error.Unimplemented, wasmnode.kvGet(arena, .{ .key = "k" }));
    try expectEqualStrings("nothing answers kv_get", wasmnode.lastError().message);
    try expectError(error.NotAsked, testing.asked(wasmnode.KvSetRequest, "kv_set"));
}

test "what a test says last counts" {
    const arena = testing.begin();
    defer testing.end();
    try testing.refuse("kv_get", .{ .code = .not_found });
    try testing.answer("kv_get", wasmnode.KvGetResponse{ .value = "v" });
    try expectEqualStrings("v", (try wasmnode.kvGet(arena, .{ .key = "one" })).value);
    _ = try wasmnode.kvGet(arena, .{ .key = "two" });
    try expectEqualStrings("two", (try testing.asked(wasmnode.KvGetRequest, "kv_get")).key);
}

test "streams move bytes, and their errors have a code without a text" {
    const arena = testing.begin();
    defer testing.end();
    try testing.answer("stream_read", "hello");
    var room: [3]u8 = undefined;
    try expectEqual(3, try wasmnode.streamRead(arena, 7, &room));
    try expectEqualStrings("hel", &room);
    try testing.answer("stream_write", "");
    try expectEqual(2, try wasmnode.streamWrite(arena, 7, "ab"));
    try testing.refuse("stream_write", .{ .code = .unavailable });
    try expectError(error.Unavailable, wasmnode.streamWrite(arena, 7, "x"));
    try expectEqualStrings("", wasmnode.lastError().message);
    try testing.answer("stream_close", "");
    try wasmnode.streamClose(arena, 7);
}

test "a task's output and the log are kept" {
    const arena = testing.begin();
    defer testing.end();
    try wasmnode.taskOutput(arena, 1, "a");
    try wasmnode.taskOutput(arena, 2, "b");
    try expectEqualStrings("ab", testing.written());
    wasmnode.log(.warn, "one");
    wasmnode.logFields(.info, "two", &.{.{ .key = "k", .value = "v" }});
    try expectEqualStrings("one\ntwo\n", testing.logged());
}

/// What the operation of the tests below does, by the signal that it is given.
fn signal(_: Allocator, request: wasmnode.DriverSignalTaskRequest) !wasmnode.DriverSignalTaskResponse {
    if (request.signal.len == 0) return .{};
    if (std.mem.eql(u8, request.signal, "fail")) {
        _ = wasmnode.fail(.not_found, "the first", .{}) catch {};
        return wasmnode.failRecoverable(.unavailable, "then {s}", .{wasmnode.lastError().message});
    }
    if (std.mem.eql(u8, request.signal, "stale")) {
        _ = wasmnode.fail(.not_found, "handled", .{}) catch {};
        return error.AccessDenied;
    }
    if (std.mem.eql(u8, request.signal, "long")) return wasmnode.fail(.internal, "{s}", .{"x" ** 3000});
    return error.OutOfMemory;
}

fn signalled(arena: Allocator, name: []const u8) !struct { i32, []const u8 } {
    const exported = wasmnode.operation(wasmnode.DriverSignalTaskRequest, wasmnode.DriverSignalTaskResponse, signal);
    return testing.call(exported, try wasmnode.wire.encode(arena, wasmnode.DriverSignalTaskRequest{ .signal = name }));
}

test "an operation answers its response, or an error that says why" {
    const arena = testing.begin();
    defer testing.end();
    try std.testing.expectEqualDeep(.{ 0, "" }, try signalled(arena, ""));
    for ([_]struct { []const u8, wasmnode.Error }{
        .{ "fail", .{ .code = .unavailable, .message = "then the first", .recoverable = true } },
        .{ "stale", .{ .code = .unknown, .message = "AccessDenied" } },
        .{ "long", .{ .code = .internal, .message = "x" ** 1024 } },
        .{ "memory", .{ .code = .resource_exhausted, .message = "out of memory" } },
    }) |case| {
        const code, const answer = try signalled(arena, case[0]);
        try expectEqual(@intFromEnum(case[1].code), code);
        try std.testing.expectEqualDeep(case[1], try wasmnode.wire.decode(wasmnode.Error, arena, answer));
    }
}

test "a request that makes no sense is refused" {
    const arena = testing.begin();
    defer testing.end();
    const exported = wasmnode.operation(wasmnode.DriverSignalTaskRequest, wasmnode.DriverSignalTaskResponse, signal);
    const code, const answer = testing.call(exported, "\x0a\x7f");
    try expectEqual(@intFromEnum(wasmnode.ErrorCode.invalid_argument), code);
    try expectEqualStrings("the message makes no sense", (try wasmnode.wire.decode(wasmnode.Error, arena, answer)).message);
}

test "a code of a later version is an error" {
    const arena = testing.begin();
    defer testing.end();
    try testing.refuse("kv_list", .{ .code = @enumFromInt(99), .message = "later" });
    try expectError(error.Unknown, wasmnode.kvList(arena, .{}));
    try expectEqual(99, @intFromEnum(wasmnode.lastError().code));
}

test "each code has an error, and each error its code" {
    for (1..17) |i| {
        const code: wasmnode.ErrorCode = @enumFromInt(i);
        try expectEqual(code, wasmnode.codeOf(wasmnode.failureOf(code)));
    }
    try expectEqual(wasmnode.ErrorCode.unknown, wasmnode.codeOf(error.Later));
}

test "all that there is compiles" {
    std.testing.refAllDecls(wasmnode);
}
