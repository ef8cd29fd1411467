package structural

import (
	"maps"
	"slices"
)

// This file has constructors for schemas that are written in Go.

// Object returns the schema of an object with properties.
func Object(properties map[string]*Schema) *Schema {
	return &Schema{Type: "object", Properties: properties, Names: slices.Sorted(maps.Keys(properties))}
}

// String returns the schema of a string.
func String() *Schema { return &Schema{Type: "string"} }

// Time returns the schema of a time, which may be null.
func Time() *Schema { return &Schema{Type: "string", Format: "date-time", Nullable: true} }

// List returns the schema of an atomic list, which may be null.
func List(item *Schema) *Schema {
	return &Schema{Type: "array", Items: item, ListType: "atomic", Nullable: true}
}

// Conditions returns the schema of a list of conditions by type. more has fields besides the usual
// ones.
func Conditions(more map[string]*Schema) *Schema {
	fields := map[string]*Schema{
		"type": String(), "status": String(), "reason": String(), "message": String(), "lastTransitionTime": Time(),
	}
	maps.Copy(fields, more)
	item := Object(fields)
	item.Values = &Values{Required: []string{"type", "status"}}
	return &Schema{Type: "array", Items: item, ListType: "map", ListMapKeys: []string{"type"}, Nullable: true}
}
