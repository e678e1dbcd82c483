package jinja

// Expressions and statements know how to run themselves: see eval.go and exec.go. The parser makes them, and the
// resolver in scope.go then binds their names to slots.

type expr interface {
	eval(r *render) Value
}

type stmt interface {
	exec(r *render) control
}

// varRef is where a variable lives: slot of the activation that is hops functions out.
type varRef struct{ hops, slot int }

type (
	constExpr struct{ v Value }

	nameExpr struct {
		name string
		line int
		ref  varRef
		// undef is what the name gives while it has no value.
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
		// caller passes on the caller of a call block.
		caller bool
	}

	filterExpr struct {
		// obj is nil for the text of a filter or set block.
		obj  expr
		name string
		sig  *signature
		args arguments
		line int
	}

	testExpr struct {
		obj  expr
		name string
		sig  *signature
		args arguments
		line int
	}

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
	andExpr struct{ a, b expr }
	orExpr  struct{ a, b expr }

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

	listExpr  struct{ items []expr }
	tupleExpr struct{ items []expr }
	dictExpr  struct {
		keys, vals []expr
		line       int
	}
)

// operand is one link of a chain of comparisons.
type operand struct {
	op string
	x  expr
}

// arguments are those of a call.
type arguments struct {
	pos    []expr
	names  []string
	named  []expr
	star   expr
	kwstar expr
}

// target is what can be assigned to: *nameTarget, *attrTarget or *tupleTarget.
type target interface {
	assign(r *render, v Value)
}

type (
	nameTarget struct {
		name string
		line int
		ref  varRef
		// export is set where blocks must see the name.
		export bool
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

// frame says what happens where a scope is entered: the variables that get a value then.
type frame struct{ loads []load }

type loadKind uint8

const (
	loadMissing loadKind = iota
	loadVar
	loadAlias
)

// load sets slot of the current activation: to nothing, to the render's variable of that name, or to another variable.
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
		// bodies holds one more than conds if there is an else.
		bodies [][]stmt
		lines  []int
	}

	forStmt struct {
		target    target
		iter      expr
		test      expr
		testVar   target
		body      []stmt
		elseBody  []stmt
		recursive bool
		line      int
		// loop is the slot of the loop variable, or -1 when the body does not use it.
		loop int
		// self is where the else branch of a recursive loop runs, and the loop itself: a function of its own.
		fn                           *function
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

	// scopeStmt is an autoescape block, whose only effect is a scope.
	scopeStmt struct {
		body  []stmt
		frame frame
	}

	blockStmt struct {
		name string
		body []stmt
		// required must be overridden, which cannot happen here.
		required bool
		fn       *function
		frame    frame
		line     int
	}

	// generationStmt is the generation tag: its body is a function of its own, as that of a call block.
	generationStmt struct {
		body  []stmt
		fn    *function
		frame frame
	}

	breakStmt    struct{ line int }
	continueStmt struct{ line int }
)

// macroDef is the definition of a macro or of the body of a call block.
type macroDef struct {
	name     string
	params   []*nameTarget
	defaults []expr
	body     []stmt
	line     int
	fn       *function
	frame    frame
	// The slots of the special parameters, or -1.
	caller, varargs, kwargs int
}

// function is a unit with variables of its own: the template, a macro, a recursive loop, a block.
type function struct {
	depth int
	slots int
}
