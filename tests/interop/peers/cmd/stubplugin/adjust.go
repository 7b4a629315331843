package main

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/containerd/nri/pkg/api"
)

// change is what a flag says about a container that is being created: `env=NAME=VALUE`. With a dash before the name, what
// has this name is removed.
type change struct {
	kind, name, value string
	removes           bool
}

// kinds are the changes that this version has. The files with build tags add some.
var kinds = map[string]func(*api.ContainerAdjustment, change) error{
	"annotation": func(a *api.ContainerAdjustment, c change) error {
		if c.removes {
			a.RemoveAnnotation(c.name)
		} else {
			a.AddAnnotation(c.name, c.value)
		}
		return nil
	},
	"blockio": func(a *api.ContainerAdjustment, c change) error {
		a.SetLinuxBlockIOClass(c.name)
		return nil
	},
	"env": func(a *api.ContainerAdjustment, c change) error {
		if c.removes {
			a.RemoveEnv(c.name)
		} else {
			a.AddEnv(c.name, c.value)
		}
		return nil
	},
	"mount": func(a *api.ContainerAdjustment, c change) error {
		if c.removes {
			a.RemoveMount(c.name)
		} else {
			a.AddMount(&api.Mount{Destination: c.name, Source: c.value, Type: "bind", Options: []string{"rbind", "ro"}})
		}
		return nil
	},
	"resources": func(a *api.ContainerAdjustment, c change) error {
		value, err := strconv.ParseInt(c.value, 10, 64)
		if err != nil {
			return err
		}
		switch c.name {
		case "cpu-shares":
			a.SetLinuxCPUShares(uint64(value))
		case "memory-limit":
			a.SetLinuxMemoryLimit(value)
		default:
			return fmt.Errorf("no such resource: %q", c.name)
		}
		return nil
	},
}

// changes are a flag that may be given more than once.
type changes []change

func (c *changes) String() string { return "" }

func (c *changes) Set(text string) error {
	kind, rest, _ := strings.Cut(text, "=")
	apply, ok := kinds[kind]
	if !ok {
		known := make([]string, 0, len(kinds))
		for kind := range kinds {
			known = append(known, kind)
		}
		sort.Strings(known)
		return fmt.Errorf("this version cannot adjust %q, but %s", kind, strings.Join(known, ", "))
	}
	var parsed change
	parsed.kind = kind
	parsed.name, parsed.value, _ = strings.Cut(rest, "=")
	parsed.name, parsed.removes = strings.CutPrefix(parsed.name, "-")
	*c = append(*c, parsed)
	return apply(&api.ContainerAdjustment{}, parsed)
}

// adjustment is nil if there is nothing to change.
func (c changes) adjustment() (*api.ContainerAdjustment, error) {
	if len(c) == 0 {
		return nil, nil
	}
	adjustment := &api.ContainerAdjustment{}
	for _, change := range c {
		if err := kinds[change.kind](adjustment, change); err != nil {
			return nil, err
		}
	}
	return adjustment, nil
}
