package jinja

// Expressions and statements run themselves, see eval.go and exec.go. The parser makes them. The resolver in resolve.go
// and scope.go then binds their names to slots.

type expr interface {
	eval(r *render) Value
}

type stmt interface {
	exec(r *render) control
}

// varRef is the place of a variable: a slot of the activation that is hops functions out.
type varRef struct{ hops, slot int }

type (
	constExpr struct{ v Value }

	nameExpr struct {
		name string
		line int
		ref  varRef
		// undef is the value of the name while nothing is assigned to it.
		undef *undefined
	}

	attrExpr struct {
		obj  expr
		name *strValue
		line int
	}

	itemExpr struct {
		obj, key expr
		line     int
	}

	sliceExpr struct {
		obj               expr
		start, stop, step expr
		line              int
	}

	callExpr struct {
		fn   expr
		args arguments
		line int
	}

	// applyExpr applies a filter or a test. what is the kind, and sig is nil if the name is unknown.
	applyExpr struct {
		obj        expr
		what, name string
		sig        *signature
		args       arguments
		line       int
	}

	// textExpr is the text of a filter or set block.
	textExpr struct{}

	binaryExpr struct {
		op   string
		a, b expr
		line int
	}

	unaryExpr struct {
		op   string
		x    expr
		line int
	}

	notExpr struct{ x expr }

	// logicExpr is "or", or else "and".
	logicExpr struct {
		or   bool
		a, b expr
	}

	compareExpr struct {
		first expr
		rest  []operand
		line  int
	}

	concatExpr struct {
		parts []expr
		line  int
	}

	condExpr struct {
		cond, yes, no expr
		line          int
	}

	listExpr struct {
		items []expr
		tuple bool
	}

	dictExpr struct {
		keys, vals []expr
		line       int
	}
)

// operand is one link in a chain of comparisons.
type operand struct {
	op string
	x  expr
}

// arguments are the arguments of a call.
type arguments struct {
	pos    []expr
	names  []string
	named  []expr
	star   expr
	kwstar expr
}

// target is the left side of an assignment: *nameTarget, *attrTarget or *tupleTarget.
type target interface {
	assign(r *render, v Value)
}

type (
	nameTarget struct {
		name string
		line int
		ref  varRef
	}
	attrTarget struct {
		ns   *nameExpr
		attr *strValue
		line int
	}
	tupleTarget struct {
		items []target
		line  int
	}
)

// frame lists the variables that get a value when a scope is entered.
type frame struct{ loads []load }

type loadKind uint8

const (
	loadMissing loadKind = iota
	loadVar
	loadAlias
	loadParam // its value is already there
)

// load sets a slot of the current activation: to nothing, to a variable of the render, or to another variable.
type load struct {
	kind loadKind
	slot int
	name string
	from varRef
}

type (
	dataStmt struct{ text Text }

	outputStmt struct {
		x    expr
		line int
	}

	ifStmt struct {
		conds []expr
		// bodies has one element more than conds if there is an else.
		bodies [][]stmt
		lines  []int
	}

	forStmt struct {
		target   target
		iter     expr
		test     expr
		testVar  target
		body     []stmt
		elseBody []stmt
		line     int
		usesLoop bool
		// loop is the slot of the loop variable, or -1 if the body does not use it.
		loop                         int
		frame, testFrame, otherFrame frame
	}

	setStmt struct {
		target target
		x      expr
		line   int
	}

	setBlockStmt struct {
		target target
		filter expr
		body   []stmt
		frame  frame
		line   int
	}

	macroStmt struct {
		macroDef
		target *nameTarget
	}

	callStmt struct {
		macroDef
		call *callExpr
		line int
	}

	filterStmt struct {
		filter expr
		body   []stmt
		frame  frame
		line   int
	}

	withStmt struct {
		targets []target
		values  []expr
		body    []stmt
		frame   frame
		line    int
	}

	// generationStmt is the generation tag. Its body is a function, like the body of a call block.
	generationStmt struct {
		body  []stmt
		fn    *function
		frame frame
	}

	// jumpStmt is break or continue.
	jumpStmt control
)

// macroDef is the definition of a macro, or of the body of a call block.
type macroDef struct {
	name     string
	params   []*nameTarget
	defaults []expr
	body     []stmt
	line     int
	fn       *function
	frame    frame
	// usesCaller: the body uses the special parameter caller, which has the slot caller, or -1.
	usesCaller bool
	caller     int
}

// function is a unit with its own variables: the template, a macro, or the body of a call block or generation tag.
type function struct {
	depth int
	slots int
}
