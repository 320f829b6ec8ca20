"""What each function ships: its code as Lambda gets it, zipped, and the layers under it."""

import tempfile
import zipfile
from pathlib import Path

from oncely_cdk.layers import Target, layers_for
from tests.bench.figures import PackageSize
from tests.infra.assembly import Assembly


def measure() -> tuple[PackageSize, ...]:
    layers = {
        name: layer.build_if_missing().stat().st_size
        for name, layer in layers_for(Target.lambda_()).items()
    }
    with tempfile.TemporaryDirectory() as folder:
        assembly = Assembly.from_folder(
            Path(folder) / "prod", stage="prod", alert_email="ops@example.com"
        )
        return tuple(
            PackageSize(
                function=function.name,
                code=_zipped(function.folder, Path(folder) / "code.zip") // 1000,
                layers=sum(layers[name] for name in function.layers) // 1000,
            )
            for function in assembly.functions.values()
        )


def _zipped(folder: Path, archive: Path) -> int:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in sorted(folder.rglob("*")):
            packed.write(file, file.relative_to(folder))
    return archive.stat().st_size
