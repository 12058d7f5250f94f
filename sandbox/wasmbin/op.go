package wasmbin

// Op is an instruction's code: one byte, or a prefix byte followed by the number
// under it, as in 0xfc0b for memory.fill.
type Op uint16

// The instructions that someone asks about.
const (
	OpUnreachable        Op = 0x00
	OpBlock              Op = 0x02
	OpLoop               Op = 0x03
	OpIf                 Op = 0x04
	OpElse               Op = 0x05
	OpThrow              Op = 0x08
	OpThrowRef           Op = 0x0a
	OpEnd                Op = 0x0b
	OpBr                 Op = 0x0c
	OpBrIf               Op = 0x0d
	OpBrTable            Op = 0x0e
	OpReturn             Op = 0x0f
	OpCall               Op = 0x10
	OpCallIndirect       Op = 0x11
	OpReturnCall         Op = 0x12
	OpReturnCallIndirect Op = 0x13
	OpCallRef            Op = 0x14
	OpReturnCalls        Op = 0x15 // return_call_ref, the last of the calls
	OpLocalGet           Op = 0x20
	OpLocalSet           Op = 0x21
	OpLocalTee           Op = 0x22
	OpGlobalGet          Op = 0x23
	OpGlobalSet          Op = 0x24
	OpTableGet           Op = 0x25
	OpTableSet           Op = 0x26
	OpTryTable           Op = 0x1f
	OpMemorySize         Op = 0x3f
	OpMemoryGrow         Op = 0x40
	OpI32Const           Op = 0x41
	OpI64Const           Op = 0x42
	OpI32GtU             Op = 0x4b
	OpI32GeS             Op = 0x4e
	OpI32LeU             Op = 0x4d
	OpI64GtU             Op = 0x56
	OpI32Add             Op = 0x6a
	OpI32Sub             Op = 0x6b
	OpI32And             Op = 0x71
	OpI32Shl             Op = 0x74
	OpI32ShrU            Op = 0x76
	OpI64Add             Op = 0x7c
	OpI64Shl             Op = 0x86
	OpI64ExtendI32U      Op = 0xad
	OpBrOnNull           Op = 0xd5
	OpBrOnNonNull        Op = 0xd6
	OpMemoryInit         Op = 0xfc08
	OpDataDrop           Op = 0xfc09
	OpMemoryCopy         Op = 0xfc0a
	OpMemoryFill         Op = 0xfc0b
	OpTableInit          Op = 0xfc0c
	OpTableCopy          Op = 0xfc0e
	OpTableGrow          Op = 0xfc0f
	OpTableFill          Op = 0xfc11
)

// Calls reports whether the instruction calls a function, in any of the forms.
func (o Op) Calls() bool { return o >= OpCall && o <= OpReturnCalls }

// Opens reports whether the instruction opens a block.
func (o Op) Opens() bool { return o >= OpBlock && o <= OpIf || o == OpTryTable }

// Leaves reports whether control may go elsewhere than to the next instruction,
// other than by opening a block or by a trap.
func (o Op) Leaves() bool {
	switch {
	case o == OpUnreachable, o >= OpElse && o <= OpReturn && o != OpEnd, o.Calls(), o == OpBrOnNull, o == OpBrOnNonNull:
		return true
	}
	return false
}

// Bulk reports whether the time that the instruction takes depends on the number
// on top of the stack.
func (o Op) Bulk() bool {
	switch o {
	case OpMemoryInit, OpMemoryCopy, OpMemoryFill, OpTableInit, OpTableCopy, OpTableGrow, OpTableFill, OpMemoryGrow:
		return true
	}
	return false
}

// Checks reports whether the instruction looks at its operands before it does its
// work, and traps when they will not do: memory accesses, divisions, conversions.
func (o Op) Checks() bool {
	switch {
	case o >= 0x28 && o <= 0x3e: // loads and stores
	case o >= 0x6d && o <= 0x70, o >= 0x7f && o <= 0x82: // divisions
	case o >= 0xa8 && o <= 0xab, o >= 0xae && o <= 0xb1: // conversions
	case o >= 0xfd00 && o <= 0xfd0b, o >= 0xfd54 && o <= 0xfd5d: // vector loads and stores
	case o >= 0xfe00:
	default:
		return false
	}
	return true
}

// form is what follows an instruction's code.
type form uint8

const (
	formUnknown form = iota
	formPlain
	formBlock
	formTryTable
	formLabel
	formLabels
	formFunc
	formIndirect
	formType
	formTag
	formSelect
	formLocal
	formGlobal
	formTable
	formMemArg
	formMemory
	formS32
	formS64
	formBytes4
	formBytes8
	formHeapType
	formEnd
	formMisc
	formVector
	formAtomic
	formTailCall // of a function
	formTailIndirect
	formThrowRef
	formTypedPlain
	formTypedLabel
	formLegacyEH
	formGC
	formStack
)

// forms is the form of every instruction of one byte.
var forms = func() (t [256]form) {
	set := func(f form, from, to int) {
		for i := from; i <= to; i++ {
			t[i] = f
		}
	}
	set(formPlain, 0x00, 0x01)
	set(formBlock, 0x02, 0x04)
	set(formPlain, 0x05, 0x05)
	set(formLegacyEH, 0x06, 0x07)
	set(formTag, 0x08, 0x08)
	set(formLegacyEH, 0x09, 0x09)
	set(formThrowRef, 0x0a, 0x0a)
	set(formEnd, 0x0b, 0x0b)
	set(formLabel, 0x0c, 0x0d)
	set(formLabels, 0x0e, 0x0e)
	set(formPlain, 0x0f, 0x0f)
	set(formFunc, 0x10, 0x10)
	set(formIndirect, 0x11, 0x11)
	set(formTailCall, 0x12, 0x12)
	set(formTailIndirect, 0x13, 0x13)
	set(formType, 0x14, 0x15)
	set(formLegacyEH, 0x18, 0x19)
	set(formPlain, 0x1a, 0x1b)
	set(formSelect, 0x1c, 0x1c)
	set(formTryTable, 0x1f, 0x1f)
	set(formLocal, 0x20, 0x22)
	set(formGlobal, 0x23, 0x24)
	set(formTable, 0x25, 0x26)
	set(formMemArg, 0x28, 0x3e)
	set(formMemory, 0x3f, 0x40)
	set(formS32, 0x41, 0x41)
	set(formS64, 0x42, 0x42)
	set(formBytes4, 0x43, 0x43)
	set(formBytes8, 0x44, 0x44)
	set(formPlain, 0x45, 0xc4)
	set(formHeapType, 0xd0, 0xd0)
	set(formPlain, 0xd1, 0xd1)
	set(formFunc, 0xd2, 0xd2)
	set(formGC, 0xd3, 0xd3)
	set(formTypedPlain, 0xd4, 0xd4)
	set(formTypedLabel, 0xd5, 0xd6)
	set(formStack, 0xe0, 0xe6)
	set(formGC, 0xfb, 0xfb)
	set(formMisc, 0xfc, 0xfc)
	set(formVector, 0xfd, 0xfd)
	set(formAtomic, 0xfe, 0xfe)
	return t
}()
