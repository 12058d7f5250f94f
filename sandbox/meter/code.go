package meter

import "github.com/wasmnode/wasmnode/sandbox/wasmbin"

// code is a function body in the making.
type code struct{ b []byte }

// blockEmpty is the type of a block without parameters and results, which takes
// the place of an instruction in [code.op].
const blockEmpty wasmbin.Op = 0x40

func (c *code) raw(b []byte) { c.b = append(c.b, b...) }

// op appends instructions without an immediate.
func (c *code) op(ops ...wasmbin.Op) {
	for _, o := range ops {
		c.b = append(c.b, byte(o))
	}
}

// index appends an instruction with an index.
func (c *code) index(op wasmbin.Op, i uint32) {
	c.b = wasmbin.AppendUnsigned(append(c.b, byte(op)), i)
}

func (c *code) i32(v int32) {
	c.b = wasmbin.AppendSigned(append(c.b, byte(wasmbin.OpI32Const)), int64(v))
}

// locals appends local.get for each.
func (c *code) locals(is ...uint32) {
	for _, i := range is {
		c.index(wasmbin.OpLocalGet, i)
	}
}
