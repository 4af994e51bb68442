"""Sphinx: the pages of this folder, and an API reference made from the docstrings. `make docs` builds it."""

import ast
import pathlib
import re

_PACKAGE = pathlib.Path(__file__).parent.parent / "albert_tf"

project = "albert_tf"
release = re.search('__version__ = "(.*)"', (_PACKAGE / "__init__.py").read_text(encoding="utf-8"))[1]
extensions = ["myst_parser", "sphinx.ext.napoleon", "autoapi.extension"]
html_theme = "furo"
myst_heading_anchors = 4
suppress_warnings = [
    "myst.xref_missing",  # links to files that are no pages: tests/test_docs.py checks that they exist
    "misc.highlighting_failure",  # examples of CSV files: Pygments has no colours for CSV
    "autoapi.python_import_resolution",  # modules that albert_tf/utils/imports.py loads when they are used
]

# The docstrings are read without importing the package: the reference needs no TensorFlow.
autoapi_dirs = [str(_PACKAGE)]
autoapi_generate_api_docs = False  # reference.rst has the public names
autoapi_add_toctree_entry = False
add_module_names = False
autoapi_python_class_content = "both"
napoleon_google_docstring = True
napoleon_use_ivar = True  # attributes as fields of their class: properties are documented by themselves


def describe_settings(app):
    """Shows the fields of settings, Annotated[type, limits, "text"], with their type and their text."""
    for settings in ast.parse((_PACKAGE / "modeling/settings.py").read_text(encoding="utf-8")).body:
        for field in settings.body if isinstance(settings, ast.ClassDef) else ():
            if isinstance(field, ast.AnnAssign) and ast.unparse(field.annotation).startswith("Annotated["):
                kind, *_, text = field.annotation.slice.elts
                shown = app.env.autoapi_all_objects[f"albert_tf.modeling.settings.{settings.name}.{field.target.id}"]
                shown.annotation, shown.docstring = ast.unparse(kind), ast.literal_eval(text)


def setup(app):
    """Runs describe_settings when autoapi has read the package."""
    app.connect("builder-inited", describe_settings, priority=900)
