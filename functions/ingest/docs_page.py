"""The page that shows the API. Swagger UI comes from the Powertools package: nothing is fetched
from elsewhere but this service's own OpenAPI document."""

from importlib.resources import files

_ASSETS = "aws_lambda_powertools.event_handler.openapi.swagger_ui"

# The document lies beside the page, whatever stands before /v1.
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>Sendoff API</title>
<style>{css}</style>
</head>
<body>
<div id="api"></div>
<noscript>The API is described in <a href="openapi.json">openapi.json</a>.</noscript>
<script>{javascript}</script>
<script>
SwaggerUIBundle({{
  url: "openapi.json",
  dom_id: "#api",
  deepLinking: true,
  presets: [SwaggerUIBundle.presets.apis],
  validatorUrl: null,
}});
</script>
</body>
</html>
"""


def docs_page() -> str:
    """Return the page as HTML."""
    folder = files(_ASSETS)
    return _PAGE.format(
        css=folder.joinpath("swagger-ui.min.css").read_text(encoding="utf-8"),
        javascript=folder.joinpath("swagger-ui-bundle.min.js").read_text(encoding="utf-8"),
    )
