package wasmbin

import "encoding/binary"

// SetCustom returns a module with one custom section of that name and content, as its last
// section, in the place of all that it has by that name. Every other byte stays as it is. The
// same input gives the same output. Errors are of type [*Error].
func SetCustom(module []byte, name string, content []byte) ([]byte, error) {
	if err := checkHeader(module, len(module)); err != nil {
		return nil, err
	}
	out := append(make([]byte, 0, len(module)+len(name)+len(content)+2*binary.MaxVarintLen32+1), module[:8]...)
	r := newReader(module, 8, len(module), "")
	r.short = ErrTruncated
	for r.more() {
		at := r.pos
		id := r.Byte()
		body := r.Bytes(r.U32(), "section")
		if r.err == nil && id == secCustom {
			s := newReader(module, r.pos-len(body), r.pos, "custom section")
			if string(s.Name()) == name && s.err == nil {
				continue
			}
			r.err = s.err
		}
		if r.err != nil {
			return nil, r.Err()
		}
		out = append(out, module[at:r.pos]...)
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	return section(out, secCustom, append(appendBytes(nil, name), content...)), nil
}
