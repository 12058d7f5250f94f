//! Decodes each message that it reads and writes it again, as ../../c/testdata/echo.c does. With
//! the argument "golden" it prints messages that it made by name, as package sdktest does in Go.

const std = @import("std");
const wasmnode = @import("wasmnode");
const Allocator = std.mem.Allocator;

fn echo(comptime T: type, arena: Allocator, bytes: []const u8, out: *std.ArrayList(u8)) !void {
    const message = wasmnode.wire.decode(T, arena, bytes) catch |refused| {
        const code: wasmnode.ErrorCode = if (refused == error.Malformed) .invalid_argument else .resource_exhausted;
        return answer(out, code, "");
    };
    try answer(out, .unspecified, try wasmnode.wire.encode(arena, message));
}

fn answer(out: *std.ArrayList(u8), code: wasmnode.ErrorCode, bytes: []const u8) !void {
    try out.append(@intCast(@intFromEnum(code)));
    var length: [4]u8 = undefined;
    std.mem.writeInt(u32, &length, @intCast(bytes.len), .little);
    try out.appendSlice(&length);
    try out.appendSlice(bytes);
}

fn echoByName(name: []const u8, arena: Allocator, bytes: []const u8, out: *std.ArrayList(u8)) !void {
    inline for (wasmnode.messages) |m| {
        if (std.mem.eql(u8, name, m[0])) return echo(m[1], arena, bytes, out);
    }
    return error.NoSuchMessage;
}

fn print(arena: Allocator, name: []const u8, message: anytype) !void {
    const bytes = try wasmnode.wire.encode(arena, message);
    try std.io.getStdOut().writer().print("{s} {}\n", .{ name, std.fmt.fmtSliceHexLower(bytes) });
}

fn golden(arena: Allocator) !void {
    try print(arena, "task", wasmnode.TaskConfig{
        .id = "id",
        .namespace = "default",
        .env = &.{.{ .key = "KEY", .value = "value" }},
        .resources = .{ .cpu_mhz = 500, .memory_bytes = 1 << 33, .cores = &.{ 0, 1, 300 } },
        .ports = &.{ .{ .label = "http", .host_ip = "::1", .host_port = 8080, .task_port = 80 }, .{ .label = "db" } },
        .driver_config = "{}",
    });
    try print(arena, "stat", wasmnode.StatValue{
        .value = .{ .int_value = -1 },
        .denominator = .{ .float_denominator = 0.5 },
        .unit = "MiB",
    });
    try print(arena, "exec", wasmnode.DriverExecTaskResponse{
        .stdout = "out",
        .stderr = "err",
        .result = .{ .exit_code = -1, .signal = 9, .oom_killed = true },
    });
    try print(arena, "set", wasmnode.KvSetRequest{ .key = "k", .version = 0 });
}

pub fn main() !void {
    var memory = std.heap.ArenaAllocator.init(std.heap.page_allocator);
    const arena = memory.allocator();
    const args = try std.process.argsAlloc(arena);
    if (args.len > 1) return golden(arena);
    var rest: []const u8 = try std.io.getStdIn().readToEndAlloc(arena, 1 << 30);
    var out = std.ArrayList(u8).init(arena);
    while (rest.len > 0) {
        const name = rest[1..][0..rest[0]];
        const length = std.mem.readInt(u32, rest[1 + name.len ..][0..4], .little);
        const bytes = rest[1 + name.len + 4 ..][0..length];
        rest = rest[1 + name.len + 4 + bytes.len ..];
        try echoByName(name, arena, bytes, &out);
    }
    try std.io.getStdOut().writeAll(out.items);
}
