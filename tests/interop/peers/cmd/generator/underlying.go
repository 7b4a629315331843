package main

import (
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/opencontainers/runtime-tools/generate"
)

// underlying is what NRI's generator edits a spec with. It is that of runtime-tools, which CRI-O gives it, but for
// namespaces of time: it does not know them, and the one that containerd has in its place does.
type underlying struct {
	generate.Generator
}

func newUnderlying(spec *specs.Spec) *underlying {
	return &underlying{generate.NewFromSpec(spec)}
}

// Spec returns what is edited.
func (u *underlying) Spec() *specs.Spec {
	return u.Config
}

// AddOrReplaceLinuxNamespace lets the container have a namespace, in its place if it has one of that kind.
func (u *underlying) AddOrReplaceLinuxNamespace(kind, path string) error {
	if kind != string(specs.TimeNamespace) {
		return u.Generator.AddOrReplaceLinuxNamespace(kind, path)
	}
	own := specs.LinuxNamespace{Type: specs.TimeNamespace, Path: path}
	if u.Config.Linux == nil {
		u.Config.Linux = &specs.Linux{}
	}
	if i := slices.IndexFunc(u.Config.Linux.Namespaces, isTime); i >= 0 {
		u.Config.Linux.Namespaces[i] = own
	} else {
		u.Config.Linux.Namespaces = append(u.Config.Linux.Namespaces, own)
	}
	return nil
}

// RemoveLinuxNamespace lets the container share what the runtime is in.
func (u *underlying) RemoveLinuxNamespace(kind string) error {
	if kind != string(specs.TimeNamespace) {
		return u.Generator.RemoveLinuxNamespace(kind)
	}
	if u.Config.Linux != nil {
		u.Config.Linux.Namespaces = slices.DeleteFunc(u.Config.Linux.Namespaces, isTime)
	}
	return nil
}

func isTime(namespace specs.LinuxNamespace) bool {
	return namespace.Type == specs.TimeNamespace
}
