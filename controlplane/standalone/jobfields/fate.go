package jobfields

import "slices"

// fate is what becomes of a field that a job sets to something that is not its default.
type fate struct {
	kind fateKind
	// by is the package that acts on the field, from the module's root.
	by string
	// text is what people are told: what does not happen, and what does instead. Of
	// what is told to nobody it is why nothing has to be done.
	text string
	// except are values of a text that mean what happens anyway.
	except []string
}

type fateKind int

const (
	unknown   fateKind = iota
	isDone             // acted on, and so is what is in it
	isJudged           // acted on, and what is in it is looked at by who acts on it
	isInside           // nothing by itself: what is in it has fates
	isMoved            // canonicalising a job copies it where it is looked at
	isMoot             // it asks for nothing that would have to be done
	isWarned           // it has no effect, which a job can live with
	isRefused          // without it the job would be another
)

// looksInside reports whether the fields in a field have a fate of their own.
func (f fate) looksInside() bool {
	return f.kind == isDone || f.kind == isInside
}

// tells reports whether people are told of a field that is set.
func (f fate) tells() bool {
	return f.kind == isWarned || f.kind == isRefused
}

// excepts reports whether a text means what happens anyway.
func (f fate) excepts(value any) bool {
	text, is := value.(string)
	return is && slices.Contains(f.except, text)
}

// done: package by acts on it. Of blocks: on what their own fields say.
func done(by string) fate { return fate{kind: isDone, by: by} }

// judged: package by acts on the whole block, or refuses it.
func judged(by string) fate { return fate{kind: isJudged, by: by} }

// inside: a block that asks for nothing but by its own fields.
func inside() fate { return fate{kind: isInside} }

// moved: canonicalising copies it into blocks that are looked at.
func moved(where string) fate { return fate{kind: isMoved, text: where} }

// moot: nothing has to be done, because of why.
func moot(why string) fate { return fate{kind: isMoot, text: why} }

func warned(text string) fate { return fate{kind: isWarned, text: text} }

func refused(text string) fate { return fate{kind: isRefused, text: text} }

// but makes an exception of values that mean what happens anyway.
func (f fate) but(values ...string) fate {
	f.except = values
	return f
}
