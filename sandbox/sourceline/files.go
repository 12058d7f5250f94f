package sourceline

// The contents and forms of version 5's entries that are of use here.
const (
	contentPath      = 1
	contentDirectory = 2

	formData2    = 0x05
	formData4    = 0x06
	formData8    = 0x07
	formString   = 0x08
	formBlock    = 0x09
	formData1    = 0x0b
	formStrp     = 0x0e
	formUdata    = 0x0f
	formData16   = 0x1e
	formLineStrp = 0x1f
)

// entry is the name of a file, by its number, and of its directory: none when the file is in that
// of the compilation.
func (t Tables) entry(u unit, number uint64) (dir, name []byte) {
	r := reader{b: u.files}
	if u.version < 5 {
		return oldEntry(&r, number)
	}
	first := r
	t.entries(&r, u.wide, nil) // the directories
	of := entry{number: number}
	t.entries(&r, u.wide, &of)
	if of.dir > 0 {
		in := entry{number: of.dir}
		t.entries(&first, u.wide, &in)
		dir = in.path
	}
	return dir, of.path
}

// oldEntry reads the lists of versions before 5, whose numbers begin at 1.
func oldEntry(r *reader, number uint64) (dir, name []byte) {
	dirs := *r
	for len(r.text()) > 0 {
	}
	for n := uint64(1); r.more(); n++ {
		name = r.text()
		if len(name) == 0 {
			return nil, nil
		}
		in := r.unsigned()
		r.unsigned() // when it was written
		r.unsigned() // its size
		if n < number {
			continue
		}
		if r.bad || n > number {
			return nil, nil
		}
		for i := uint64(1); i <= in && dirs.more(); i++ {
			if dir = dirs.text(); len(dir) == 0 {
				return nil, name
			}
		}
		return dir, name
	}
	return nil, nil
}

// entry is one of a list of version 5.
type entry struct {
	number uint64 // which
	path   []byte
	dir    uint64
}

// entries reads a list; what is of the number of want is put there.
func (t Tables) entries(r *reader, wide bool, want *entry) {
	formats := make([][2]uint64, r.u8())
	for i := range formats {
		formats[i] = [2]uint64{r.unsigned(), r.unsigned()}
	}
	count := r.unsigned()
	if len(formats) == 0 {
		return
	}
	for n := uint64(0); n < count && r.more(); n++ {
		for _, f := range formats {
			number, table, inline := value(r, f[1], wide)
			switch {
			case want == nil || want.number != n:
			case f[0] == contentDirectory:
				want.dir = number
			case f[0] == contentPath:
				want.path = t.path(number, table, inline)
			}
		}
	}
}

// path is a text, by what value returns.
func (t Tables) path(at, table uint64, inline []byte) []byte {
	switch table {
	case formLineStrp:
		return text(t.LineStr, at)
	case formStrp:
		return text(t.Str, at)
	default:
		return inline
	}
}

// value reads a number, the place of a text with the form that says in which table, or a text.
func value(r *reader, form uint64, wide bool) (number, table uint64, inline []byte) {
	switch form {
	case formString:
		return 0, 0, r.text()
	case formLineStrp, formStrp:
		return r.offset(wide), form, nil
	case formUdata:
		return r.unsigned(), 0, nil
	case formData1:
		return uint64(r.u8()), 0, nil
	case formData2:
		return uint64(r.u16()), 0, nil
	case formData4:
		return uint64(r.u32()), 0, nil
	case formData8:
		return r.u64(), 0, nil
	case formData16:
		r.bytes(16)
	case formBlock:
		r.bytes(r.unsigned())
	default:
		r.bad = true // how long it is, is not known
	}
	return 0, 0, nil
}
