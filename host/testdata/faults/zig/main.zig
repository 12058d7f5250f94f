//! A driver that panics in its fingerprint, below a function of its own.

const std = @import("std");
const wasmnode = @import("wasmnode");
const Allocator = std.mem.Allocator;

pub const panic = wasmnode.panic;
pub const std_options = wasmnode.std_options;

comptime {
    wasmnode.plugin(@This());
}

pub fn driverDescribe(_: Allocator, _: wasmnode.DriverDescribeRequest) !wasmnode.DriverDescribeResponse {
    return .{ .name = "faults_zig", .version = "0.1.0" };
}

pub fn driverConfigure(_: Allocator, _: wasmnode.DriverConfigureRequest) !wasmnode.DriverConfigureResponse {
    return .{};
}

pub fn driverStartTask(_: Allocator, _: wasmnode.DriverStartTaskRequest) !wasmnode.DriverStartTaskResponse {
    return .{};
}

noinline fn readTheMeter(values: []const u8, at: usize) u8 {
    std.log.info("reading value {d}", .{at});
    return values[at];
}

pub fn driverFingerprint(arena: Allocator, _: wasmnode.DriverFingerprintRequest) !wasmnode.DriverFingerprintResponse {
    const values = try arena.alloc(u8, 2);
    return .{ .next_poll_ms = readTheMeter(values, 2) };
}
