//go:build !wasip1

package config

import "reflect"

// place is where a variable is, and its type.
type place struct {
	at     uintptr
	goType reflect.Type
}

func placeOf(pointer any) place {
	v := reflect.ValueOf(pointer)
	return place{v.Pointer(), v.Type().Elem()}
}

// checkDeclared panics unless the fields of a struct are declared, and nothing else. It is left out
// of plugins, which reflect would make a sixth larger.
func checkDeclared(into any, f *Fields) {
	declared := map[place]bool{}
	for _, x := range f.list {
		declared[placeOf(x.into)] = true
		if x.given != nil {
			declared[placeOf(x.given)] = true
		}
	}
	v := reflect.ValueOf(into).Elem()
	takeDeclared(v, declared)
	for _, x := range f.list {
		if declared[placeOf(x.into)] {
			panic("config: the field " + x.name + " is not read into the " + v.Type().String() + " whose fields are declared, or another is read into the same")
		}
	}
}

// takeDeclared takes the fields of a struct, and of those in it, out of what is declared.
func takeDeclared(v reflect.Value, declared map[place]bool) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		here := place{v.Field(i).UnsafeAddr(), field.Type}
		switch {
		case declared[here]:
			delete(declared, here)
		case field.Type.Kind() == reflect.Struct && field.Type != reflect.TypeFor[Value]():
			takeDeclared(v.Field(i), declared)
		case field.Name != "_":
			panic("config: " + v.Type().String() + "." + field.Name + " is not declared: declare it, or take it out of the struct")
		}
	}
}
