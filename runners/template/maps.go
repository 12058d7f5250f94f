package template

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"dario.cat/mergo"
)

// merging of maps: what is in the first wins, or is overwritten. The first one is changed.
func (r *rendering) mergeMap(options ...func(*mergo.Config)) func(to, from map[string]any) (map[string]any, error) {
	merge := r.merging(func(to map[string]any, from ...map[string]any) (any, error) {
		if err := mergo.Map(&to, from[0], options...); err != nil {
			return nil, err
		}
		return to, nil
	}).(func(map[string]any, ...map[string]any) (any, error))
	return func(to, from map[string]any) (map[string]any, error) {
		merged, err := merge(to, from)
		if err != nil {
			return nil, err
		}
		return merged.(map[string]any), nil
	}
}

// explodeMap makes maps in maps of keys such as a/b/c. It puts values into no map that it is given,
// only into copies: such a map could be put into itself.
func (r *rendering) explodeMap(flat map[string]any) (map[string]any, error) {
	out := map[string]any{}
	own := map[uintptr]bool{} // those that it made
	for _, path := range slices.Sorted(maps.Keys(flat)) {
		at := out
		parts := strings.Split(path, "/")
		for _, part := range parts[:len(parts)-1] {
			next, is := at[part].(map[string]any)
			if !is && at[part] != nil {
				return nil, fmt.Errorf("not a map: %.80q: %.80q already has a value", path, part)
			}
			if !own[reflect.ValueOf(next).Pointer()] {
				if err := r.spend(mapPart * len(next)); err != nil {
					return nil, err
				}
				copied := make(map[string]any, len(next)+1)
				maps.Copy(copied, next)
				next = copied
				own[reflect.ValueOf(next).Pointer()] = true
				at[part] = next
			}
			at = next
		}
		if err := r.spend(mapPart*len(parts) + len(path)); err != nil {
			return nil, err
		}
		if last := parts[len(parts)-1]; last != "" {
			at[last] = flat[path]
		}
	}
	return out, nil
}

// byTag groups services by their tags, byPort by their ports.
func (r *rendering) byTag(services any) (map[string][]any, error) {
	out := map[string][]any{}
	err := r.eachService(services, func(s any) error {
		tags := Tags(nil)
		switch s := s.(type) {
		case *Service:
			tags = s.Tags
		case *NamedService:
			tags = s.Tags
		default:
			return fmt.Errorf("%T is not a service", s)
		}
		for _, tag := range tags {
			out[tag] = append(out[tag], s)
		}
		return r.spend(mapPart * len(tags))
	})
	return out, err
}

func (r *rendering) byPort(services any) (map[int][]any, error) {
	out := map[int][]any{}
	err := r.eachService(services, func(s any) error {
		service, is := s.(*Service)
		if !is {
			return fmt.Errorf("%T has no port", s)
		}
		out[service.Port] = append(out[service.Port], s)
		return r.spend(mapPart)
	})
	return out, err
}

func (r *rendering) eachService(services any, do func(any) error) error {
	list := reflect.ValueOf(services)
	if services == nil {
		return nil
	}
	if list.Kind() != reflect.Slice {
		return fmt.Errorf("%T is not a list of services", services)
	}
	for i := range list.Len() {
		if err := do(list.Index(i).Interface()); err != nil {
			return err
		}
	}
	return nil
}

// Scratch keeps what a template puts aside. It is of one rendering, which has the values: they are
// not printed with it.
type Scratch struct{ r *rendering }

// Key reports whether there is a value.
func (s *Scratch) Key(key string) bool {
	_, is := s.r.scratch[key]
	return is
}

// Get returns a value; nil: there is none.
func (s *Scratch) Get(key string) any { return s.r.scratch[key] }

// Set puts a value aside.
func (s *Scratch) Set(key string, value any) (string, error) {
	return "", s.r.put(s.r.scratch, key, value)
}

// SetX is Set where there is none yet.
func (s *Scratch) SetX(key string, value any) (string, error) {
	if s.Key(key) {
		return "", nil
	}
	return s.Set(key, value)
}

// MapSet puts a value into a map that is put aside, which is made where there is none.
func (s *Scratch) MapSet(key, in string, value any) (string, error) {
	m, err := s.mapOf(key)
	if err != nil {
		return "", err
	}
	return "", s.r.put(m, in, value)
}

// MapSetX is MapSet where the map has none yet.
func (s *Scratch) MapSetX(key, in string, value any) (string, error) {
	m, err := s.mapOf(key)
	if err != nil {
		return "", err
	}
	if _, is := m[in]; is {
		return "", nil
	}
	return "", s.r.put(m, in, value)
}

// MapValues returns the values of a map, by their keys.
func (s *Scratch) MapValues(key string) ([]any, error) {
	m, _ := s.r.scratch[key].(map[string]any)
	if m == nil {
		return nil, nil
	}
	if err := s.r.spend(listPart * len(m)); err != nil {
		return nil, err
	}
	out := make([]any, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[k])
	}
	return out, nil
}

func (s *Scratch) mapOf(key string) (map[string]any, error) {
	if !s.Key(key) {
		s.r.scratch[key] = map[string]any{}
	}
	m, is := s.r.scratch[key].(map[string]any)
	if !is || m == nil {
		return nil, fmt.Errorf("%.80q is not a map", key)
	}
	return m, nil
}
