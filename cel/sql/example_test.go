package sql_test

import (
	"fmt"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/cel/sql"
)

// The condition of an expression, for a table of SQLite whose column doc has the documents.
func ExampleTranslate() {
	self, err := cel.TypeOfSchema([]byte(`{"type": "object", "properties": {"size": {"type": "integer"}}}`), false)
	if err != nil {
		fmt.Println(err)
		return
	}
	language, err := cel.NewLanguage(cel.LanguageOptions{Variables: []cel.Variable{{Name: "self", Schema: self}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	large, err := language.CompileExpression(`self.size > 10`)
	if err != nil {
		fmt.Println(err)
		return
	}
	query, err := sql.Translate(large, sql.Options{Dialect: sql.SQLite})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(query.Where)
	fmt.Println(query.Args)
	// Output:
	// (jsonb('1') IS NOT NULL AND (json_type(doc, '$."size"') = 'integer' AND json_extract(doc, '$."size"') BETWEEN ?1 AND 9223372036854775807))
	// [11]
}
