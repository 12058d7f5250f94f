package engine

// SeesCallTrees says that guests are interruptible wherever they are.
const SeesCallTrees = false
