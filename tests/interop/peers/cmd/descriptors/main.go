// Descriptors prints the protocol as the Go module has it, one item a line, sorted: what
// tests/interop/schema.rs compares ours with.
package main

import (
	"fmt"
	"sort"
	"strings"

	// For what it registers: the protocol.
	_ "github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

const protocol = "nri.pkg.api.v1alpha1"

func main() {
	var lines []string
	protoregistry.GlobalFiles.RangeFilesByPackage(protocol, func(file protoreflect.FileDescriptor) bool {
		lines = append(lines, messages(file.Messages())...)
		lines = append(lines, enums(file.Enums())...)
		lines = append(lines, services(file.Services())...)
		return true
	})
	sort.Strings(lines)
	fmt.Println(strings.Join(lines, "\n"))
}

func messages(all protoreflect.MessageDescriptors) (lines []string) {
	for i := range all.Len() {
		message := all.Get(i)
		if message.IsMapEntry() {
			continue
		}
		lines = append(lines, fmt.Sprintf("message %s", message.FullName()))
		for j := range message.Fields().Len() {
			field := message.Fields().Get(j)
			lines = append(lines, fmt.Sprintf("field %s = %d: %s", field.FullName(), field.Number(), labelled(field)))
		}
		lines = append(lines, messages(message.Messages())...)
		lines = append(lines, enums(message.Enums())...)
	}
	return lines
}

func labelled(field protoreflect.FieldDescriptor) string {
	switch {
	case field.IsMap():
		return fmt.Sprintf("map<%s, %s>", typeOf(field.MapKey()), typeOf(field.MapValue()))
	case field.IsList():
		return "repeated " + typeOf(field)
	case field.HasOptionalKeyword():
		return "optional " + typeOf(field)
	case field.ContainingOneof() != nil:
		return "oneof " + typeOf(field)
	default:
		return typeOf(field)
	}
}

func typeOf(field protoreflect.FieldDescriptor) string {
	switch field.Kind() {
	case protoreflect.MessageKind:
		return "message " + string(field.Message().FullName())
	case protoreflect.EnumKind:
		return "enum " + string(field.Enum().FullName())
	default:
		return field.Kind().String()
	}
}

func enums(all protoreflect.EnumDescriptors) (lines []string) {
	for i := range all.Len() {
		enum := all.Get(i)
		for j := range enum.Values().Len() {
			value := enum.Values().Get(j)
			lines = append(lines, fmt.Sprintf("enum %s: %s = %d", enum.FullName(), value.Name(), value.Number()))
		}
	}
	return lines
}

func services(all protoreflect.ServiceDescriptors) (lines []string) {
	for i := range all.Len() {
		methods := all.Get(i).Methods()
		for j := range methods.Len() {
			method := methods.Get(j)
			lines = append(lines, fmt.Sprintf("rpc %s(%s%s) returns (%s%s)", method.FullName(),
				stream(method.IsStreamingClient()), method.Input().FullName(),
				stream(method.IsStreamingServer()), method.Output().FullName()))
		}
	}
	return lines
}

func stream(streaming bool) string {
	if streaming {
		return "stream "
	}
	return ""
}
