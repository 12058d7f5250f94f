package wire

// Raw is a reply as it came, within the bounds of a message, which is still to be decoded.
type Raw []byte

// tagged is the dialect for types whose fields are called otherwise than those of servers, and
// have the servers' names for JSON.
var tagged = handle("codec", "json")

// Decode reads the reply into v, whose fields go by their names for JSON where they have some.
// What v does not have is left out.
func (r Raw) Decode(v any) error { return decodeBy(tagged, r, v) }
