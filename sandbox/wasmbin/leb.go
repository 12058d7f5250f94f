package wasmbin

// AppendUnsigned appends v as the shortest unsigned LEB128 number.
func AppendUnsigned[T uint32 | int](w []byte, v T) []byte {
	for v >= 0x80 {
		w = append(w, byte(v)|0x80)
		v >>= 7
	}
	return append(w, byte(v))
}

// AppendSigned appends v as the shortest signed LEB128 number.
func AppendSigned(w []byte, v int64) []byte {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(w, c)
		}
		w = append(w, c|0x80)
	}
}

// appendBytes appends b after its length.
func appendBytes[B []byte | string](w []byte, b B) []byte {
	return append(AppendUnsigned(w, len(b)), b...)
}
