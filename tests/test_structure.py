"""The packages of albert_tf import in one direction, and no modules import each other."""

import ast

from script_session import REPOSITORY

PACKAGE = REPOSITORY / "albert_tf"
# Each package imports only from those before it.
LAYERS = ("utils", "config", "keras", "devices", "options", "text", "data", "modeling", "weights", "training", "export",
          "pretraining", "tasks", "server", "beam", "commands")


def imported_modules(path):
    """All modules that a file imports, anywhere in it."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    return {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names} | {
        node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}


def import_graph():
    """The modules of the package that each of them imports, anywhere in it."""
    paths = {".".join(path.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(".__init__"): path
             for path in PACKAGE.rglob("*.py")}
    graph = {}
    for name, path in paths.items():
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        imported = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and node.module:
                imported += [each if (each := f"{node.module}.{alias.name}") in paths else node.module
                             for alias in node.names]
        graph[name] = set(imported) & set(paths) - {name, "albert_tf"}
    return graph


def upward_imports(graph):
    def layer(module):
        package = (module.split(".") + [""])[1]
        return LAYERS.index(package) if package in LAYERS else len(LAYERS)

    return {(module, other) for module, others in graph.items() for other in others if layer(other) > layer(module)}


def in_cycles(graph):
    """The modules that import themselves by way of others."""
    while ends := {module for module, others in graph.items() if not others & graph.keys()}:
        graph = {module: others for module, others in graph.items() if module not in ends}
    return set(graph)


def test_packages_import_only_from_those_above_them_and_no_modules_import_each_other():
    graph = import_graph()
    assert len(graph) > 100 and not upward_imports(graph) and not in_cycles(graph)


def test_pickles_are_read_by_one_closed_reader_and_between_processes_of_one_command():
    """pickletools only names the instructions of a pickle. The processes get what the command itself has pickled."""
    readers = {str(path.relative_to(PACKAGE)): modules for path in PACKAGE.rglob("*.py")
               if (modules := imported_modules(path) & {"pickle", "pickletools", "marshal", "shelve", "dill",
                                                        "cloudpickle", "joblib", "torch"})}
    assert readers == {"weights/torch_file.py": {"pickletools"}, "data/worker_pool.py": {"pickle"}}
