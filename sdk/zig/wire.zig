//! The codec: Protocol Buffers, as far as the schema uses them. What a message is made of it
//! knows from the type, and from the numbers that are generated beside its members.
//!
//! Input may be hostile: it is refused, never trusted. A message of a few bytes can stand for
//! one of hundreds in memory, so that reading has a budget.

const std = @import("std");
const Allocator = std.mem.Allocator;

/// Why bytes are no message: they make no sense, or it would take more than its memory.
pub const Refused = error{ Malformed, TooLarge } || Allocator.Error;

/// What a message may take of memory once it is read.
pub const memory_max = 64 << 20;

/// Returns a message as bytes.
pub fn encode(arena: Allocator, value: anytype) Allocator.Error![]const u8 {
    var to = Writer{ .arena = arena };
    try to.message(@TypeOf(value), &value);
    return to.written();
}

/// Reads a message. Its texts are parts of the bytes. Unknown fields are skipped.
pub fn decode(comptime T: type, arena: Allocator, bytes: []const u8) Refused!T {
    var from = Reader{ .arena = arena };
    var value: T = .{};
    try from.message(T, &value, bytes);
    return value;
}

fn isText(comptime T: type) bool {
    return T == []const u8;
}

fn isList(comptime T: type) bool {
    return @typeInfo(T) == .pointer and !isText(T);
}

fn isMessage(comptime T: type) bool {
    return @typeInfo(T) == .@"struct";
}

/// Writes from the end to the beginning, so that a length is known when it is written.
const Writer = struct {
    arena: Allocator,
    room: []u8 = &.{},
    free: usize = 0, // at the beginning of room

    fn written(to: *const Writer) []const u8 {
        return to.room[to.free..];
    }

    fn put(to: *Writer, bytes: []const u8) Allocator.Error!void {
        if (to.free < bytes.len) try to.grow(bytes.len);
        to.free -= bytes.len;
        @memcpy(to.room[to.free..][0..bytes.len], bytes);
    }

    fn grow(to: *Writer, size: usize) Allocator.Error!void {
        const before = to.written();
        const room = try to.arena.alloc(u8, @max(64, 2 * to.room.len, before.len + size));
        to.free = room.len - before.len;
        @memcpy(room[to.free..], before);
        to.room = room;
    }

    fn varint(to: *Writer, number: u64) Allocator.Error!void {
        var bytes: [10]u8 = undefined;
        var rest = number;
        var i: usize = 0;
        while (rest > 127) : (i += 1) {
            bytes[i] = @as(u8, @truncate(rest)) | 128;
            rest >>= 7;
        }
        bytes[i] = @intCast(rest);
        try to.put(bytes[0 .. i + 1]);
    }

    fn tag(to: *Writer, number: u32, kind: u3) Allocator.Error!void {
        try to.varint(@as(u64, number) << 3 | kind);
    }

    /// Writes the length of what was written since, and the tag before it.
    fn head(to: *Writer, number: u32, end: usize) Allocator.Error!void {
        try to.varint(to.written().len - end);
        try to.tag(number, 2);
    }

    fn message(to: *Writer, comptime T: type, value: *const T) Allocator.Error!void {
        @setEvalBranchQuota(10_000);
        comptime var i: usize = T.numbers.len;
        inline while (i > 0) {
            i -= 1;
            const n = T.numbers[i];
            if (n.len == 2) {
                try to.member(n[0], @hasDecl(T, "always"), &@field(value, n[1]));
            } else if (@field(value, n[1])) |choice| {
                switch (choice) {
                    inline else => |v, is| if (comptime std.mem.eql(u8, @tagName(is), n[2])) try to.member(n[0], true, &v),
                }
            }
        }
    }

    fn member(to: *Writer, number: u32, always: bool, value: anytype) Allocator.Error!void {
        const T = @TypeOf(value.*);
        if (comptime isMessage(T)) {
            const end = to.written().len;
            try to.message(T, value);
            try to.head(number, end);
        } else if (comptime isText(T)) {
            if (value.len == 0 and !always) return;
            const end = to.written().len;
            try to.put(value.*);
            try to.head(number, end);
        } else if (comptime isList(T)) {
            try to.list(number, value.*);
        } else if (@typeInfo(T) == .optional) {
            if (value.*) |*set| try to.member(number, true, set);
        } else if (T == f64) {
            if (value.* == 0 and !always) return;
            try to.put(&std.mem.toBytes(std.mem.nativeToLittle(u64, @bitCast(value.*))));
            try to.tag(number, 1);
        } else {
            const bits = toBits(value.*);
            if (bits == 0 and !always) return;
            try to.varint(bits);
            try to.tag(number, 0);
        }
    }

    fn list(to: *Writer, number: u32, values: anytype) Allocator.Error!void {
        const packs = @TypeOf(values) == []const u32;
        const end = to.written().len;
        var i = values.len;
        while (i > 0) {
            i -= 1;
            if (packs) try to.varint(values[i]) else try to.member(number, true, &values[i]);
        }
        if (packs and values.len > 0) try to.head(number, end);
    }
};

/// Returns what goes over the wire for a number: one below zero has all of the upper bits.
fn toBits(value: anytype) u64 {
    return switch (@TypeOf(value)) {
        bool => @intFromBool(value),
        u32, u64 => value,
        i32, i64 => @bitCast(@as(i64, value)),
        else => toBits(@intFromEnum(value)),
    };
}

fn fromBits(comptime T: type, bits: u64) T {
    return switch (T) {
        bool => bits != 0,
        u32, u64 => @truncate(bits),
        i32, i64 => @truncate(@as(i64, @bitCast(bits))),
        else => @enumFromInt(fromBits(i32, bits)),
    };
}

/// What follows a tag.
const Value = union(enum) {
    varint: u64,
    fixed: u64,
    bytes: []const u8,
    other, // of a kind that no known field has

    fn number(v: Value) Refused!u64 {
        return if (v == .varint) v.varint else error.Malformed;
    }

    fn contents(v: Value) Refused![]const u8 {
        return if (v == .bytes) v.bytes else error.Malformed;
    }
};

/// Takes fields from the beginning of bytes.
const Fields = struct {
    rest: []const u8,

    fn varint(from: *Fields) Refused!u64 {
        var number: u64 = 0;
        for (from.rest, 0..) |byte, i| {
            if (i == 9 and byte > 1) break;
            number |= @as(u64, byte & 127) << @intCast(7 * i);
            if (byte < 128) {
                from.rest = from.rest[i + 1 ..];
                return number;
            }
        }
        return error.Malformed;
    }

    fn cut(from: *Fields, size: u64) Refused![]const u8 {
        if (size > from.rest.len) return error.Malformed;
        const n: usize = @intCast(size);
        defer from.rest = from.rest[n..];
        return from.rest[0..n];
    }

    fn next(from: *Fields) Refused!?struct { i32, Value } {
        if (from.rest.len == 0) return null;
        const tag = try from.varint();
        const number: i32 = @bitCast(@as(u32, @truncate(tag >> 3)));
        if (number <= 0) return error.Malformed;
        return .{ number, try from.value(tag) };
    }

    fn value(from: *Fields, tag: u64) Refused!Value {
        return switch (@as(u3, @truncate(tag))) {
            0 => .{ .varint = try from.varint() },
            1 => .{ .fixed = std.mem.readInt(u64, (try from.cut(8))[0..8], .little) },
            2 => .{ .bytes = try from.cut(try from.varint()) },
            3 => try from.group(),
            5 => {
                _ = try from.cut(4);
                return .other;
            },
            else => error.Malformed,
        };
    }

    /// Skips a group, which nothing writes any more, with those that it holds.
    fn group(from: *Fields) Refused!Value {
        var depth: u32 = 1;
        while (depth > 0) {
            const tag = try from.varint();
            switch (@as(u3, @truncate(tag))) {
                3 => if (depth == 100) return error.Malformed else {
                    depth += 1;
                },
                4 => depth -= 1,
                else => _ = try from.value(tag),
            }
        }
        return .other;
    }
};

/// Reads messages, with what is left of their memory.
const Reader = struct {
    arena: Allocator,
    left: usize = memory_max,

    fn take(from: *Reader, size: usize) Refused!void {
        if (size > from.left) return error.TooLarge;
        from.left -= size;
    }

    /// Reads a message into the one that is there.
    fn message(from: *Reader, comptime T: type, to: *T, bytes: []const u8) Refused!void {
        @setEvalBranchQuota(10_000);
        var fields = Fields{ .rest = bytes };
        while (try fields.next()) |field| {
            inline for (T.numbers) |n| {
                if (field[0] == n[0]) {
                    if (n.len == 2) {
                        try from.member(&@field(to, n[1]), field[1]);
                    } else {
                        try from.choice(&@field(to, n[1]), n[2], field[1]);
                    }
                }
            }
        }
    }

    fn choice(from: *Reader, to: anytype, comptime name: []const u8, v: Value) Refused!void {
        const U = @typeInfo(@TypeOf(to.*)).optional.child;
        var member_: @FieldType(U, name) = undefined;
        try from.member(&member_, v);
        to.* = @unionInit(U, name, member_);
    }

    fn member(from: *Reader, to: anytype, v: Value) Refused!void {
        const T = @TypeOf(to.*);
        if (comptime isMessage(T)) {
            try from.message(T, to, try v.contents());
        } else if (comptime isText(T)) {
            to.* = try v.contents();
        } else if (T == []const u32) {
            try from.numbers(to, v);
        } else if (comptime isList(T)) {
            var element = unset(@typeInfo(T).pointer.child);
            try from.member(&element, v);
            try from.append(to, element);
        } else if (@typeInfo(T) == .optional) {
            var set = to.* orelse unset(@typeInfo(T).optional.child);
            try from.member(&set, v);
            to.* = set;
        } else if (T == f64) {
            if (v != .fixed) return error.Malformed;
            to.* = @bitCast(v.fixed);
        } else {
            to.* = fromBits(T, try v.number());
        }
    }

    fn numbers(from: *Reader, to: *[]const u32, v: Value) Refused!void {
        if (v != .bytes) return from.append(to, fromBits(u32, try v.number()));
        var fields = Fields{ .rest = v.bytes };
        while (fields.rest.len > 0) try from.append(to, fromBits(u32, try fields.varint()));
    }

    /// Appends to a list. One that is full, as its length says, gets twice the room.
    fn append(from: *Reader, list: anytype, element: anytype) Refused!void {
        const T = @TypeOf(element);
        const length = list.len;
        try from.take(2 * @sizeOf(T));
        if (length == 0 or (length >= 4 and std.math.isPowerOfTwo(length))) {
            const room = try from.arena.alloc(T, @max(4, 2 * length));
            @memcpy(room[0..length], list.*);
            list.* = room[0..length];
        }
        const room = @constCast(list.ptr);
        room[length] = element;
        list.* = room[0 .. length + 1];
    }
};

fn unset(comptime T: type) T {
    return if (comptime isMessage(T)) .{} else if (comptime isText(T)) "" else std.mem.zeroes(T);
}
